"""The connection pool: its bounds, its time limits, and the one place where driver faults are translated.

Concurrency: any number of tasks of one event loop. Every wait has a bound: for a connection
(``acquire_seconds``), for a statement (``statement_timeout`` on the server, ``command_timeout`` here), for a
lock (``lock_timeout``). What happens at the bound has one name: `StorageUnavailable`.

Three kinds of faults are told apart: what time may mend (`StorageUnavailable`), a value or a statement that the
database will never take (`StorageRejected`), and a connection string that leads nowhere (`Misconfigured`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg
from asyncpg import connect_utils
from asyncpg.exceptions import (
    AdminShutdownError,
    CheckViolationError,
    CrashShutdownError,
    DataError,
    DeadlockDetectedError,
    InterfaceError,
    InternalClientError,
    InvalidAuthorizationSpecificationError,
    InvalidCatalogNameError,
    NotNullViolationError,
    PostgresConnectionError,
    PostgresError,
    PostgresSyntaxError,
    SerializationError,
    UndefinedColumnError,
    UndefinedTableError,
    UniqueViolationError,
)

from memlane.domain.errors import MemlaneError, Misconfigured, StorageRejected, StorageUnavailable
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.observability.tracing import SpanKind, span

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    _Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = Any
    _Pool = Any

T = TypeVar("T")

ACQUIRE_SECONDS = 1.0
"""Longest wait for a free connection."""
CONNECT_SECONDS = 1.0
"""Longest wait for a new connection."""
STATEMENT_SECONDS = 2.0
"""Longest run of one statement. Acquire, two tries and an embedding stay within the 5 s a caller waits."""
LOCK_SECONDS = 1.5
"""Longest wait for a channel's lock."""
TRIES = 4
"""Tries of one transaction when the database says that it lost a race (serialization, deadlock, a twin)."""

RACE_FAULTS = (SerializationError, DeadlockDetectedError, UniqueViolationError)
"""The transaction lost a race and was rolled back whole: it may be run again."""
_NO_SCHEMA = "The database's schema is missing or older than this program: run `memlane migrate`."
_LOST_CONNECTION = (
    PostgresConnectionError,
    AdminShutdownError,
    CrashShutdownError,
    InterfaceError,
    InternalClientError,
    OSError,
)
_NEVER_TAKEN = (DataError, PostgresSyntaxError, NotNullViolationError, CheckViolationError)
"""A value or a statement that is wrong, whether the driver or the server says so."""
_WHAT_WORKS = (
    "is not a connection string that works: postgresql://user:password@host/database, and after a `?` only what "
    "Postgres knows"
)


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds of one process's pool.

    Attributes:
        max_size: Most connections; the sum over processes must fit the server's ``max_connections``.
        behind_pooler: True behind a transaction pooler such as PgBouncer: no prepared statements are kept and
            no session settings are made, as the next transaction may run on another session. The time limits
            then belong on the role (docs/install.md).
    """

    max_size: int = 16
    behind_pooler: bool = False


def check_connection_string(dsn: str) -> None:
    """Whether the driver can read the connection string; nothing is reached.

    Raises:
        Misconfigured: It cannot, in a phrase that follows the setting's name.
    """
    # The driver has no public name for it. Without it the same is told a moment later, by the first connection.
    parse = getattr(connect_utils, "_parse_connect_dsn_and_args", None)
    if parse is None:
        return
    try:
        parse(**dict.fromkeys(signature(parse).parameters) | {"dsn": dsn})
    except ValueError:
        # Not chained: the driver's message quotes the connection string.
        raise Misconfigured(_WHAT_WORKS) from None
    except (LookupError, OSError):
        # This machine's user or a file of keys is missing, which may come while a server tries.
        return


class Pool:
    """A pool that opens itself as soon as the database answers, and translates every driver fault."""

    def __init__(self, dsn: str, limits: PoolLimits | None = None) -> None:
        self._dsn = dsn
        self._limits = limits or PoolLimits()
        self._pool: _Pool | None = None
        self._opening = asyncio.Lock()

    async def aclose(self) -> None:
        """Close every connection; one that does not close within 2 s is cut."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        _count(None)
        try:
            await asyncio.wait_for(pool.close(), timeout=2.0)
        except (TimeoutError, *_LOST_CONNECTION):
            pool.terminate()

    async def _opened(self) -> _Pool:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    # min_size 0 here: the pool exists even while the database does not answer.
                    self._pool = await asyncpg.create_pool(
                        self._dsn,
                        min_size=0,
                        max_size=self._limits.max_size,
                        max_inactive_connection_lifetime=300.0,
                        timeout=CONNECT_SECONDS,
                        command_timeout=STATEMENT_SECONDS + 0.2,
                        statement_cache_size=0 if self._limits.behind_pooler else 200,
                        reset=_keep_session,
                        init=None if self._limits.behind_pooler else _limit_session,
                    )
                    _count(self._pool)
        return self._pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection.

        Raises:
            StorageUnavailable: None is free in time, or the database does not answer.
            StorageRejected: It was used with a value or a statement that the database will never take.
            Misconfigured: The connection string is none.
        """
        with translated():
            pool = await self._opened()
            try:
                lent = await _acquired(pool)
            except ValueError:
                # Not chained: the driver's message quotes the connection string.
                raise Misconfigured(f"DATABASE_URL {_WHAT_WORKS}") from None
            try:
                yield lent
            except asyncio.CancelledError:
                # The caller's deadline is over. A cut connection is rolled back by the server, and the caller
                # does not wait for that.
                lent.terminate()
                raise
            except InterfaceError as fault:
                # On a connection that is open this is a wrong use of the driver, and no outage.
                if not lent.is_closed():
                    raise _rejected(fault) from fault
                raise
            finally:
                try:
                    await pool.release(lent, timeout=0.5)
                except (TimeoutError, *_LOST_CONNECTION):
                    lent.terminate()

    async def read(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a read; when its connection turns out to be dead, run it once more on another."""
        with span("database read", kind=SpanKind.CLIENT, db_system_name="postgresql"):
            return await self._read(act)

    async def _read(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            async with self.connection() as connection:
                return await act(connection)
        except StorageUnavailable as fault:
            if not _is_lost(fault.__cause__):
                raise
        async with self.connection() as connection:
            return await act(connection)

    async def write(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a transaction (READ COMMITTED).

        A lost race is run again, at most 4 tries in all. A connection that dies before the commit was sent
        is tried once more on another; one that dies during the commit is not, since the write may stand: the
        caller gets `StorageUnavailable` and retries with its idempotency key.
        """
        with span("database write", kind=SpanKind.CLIENT, db_system_name="postgresql"):
            return await self._write(act)

    async def _write(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        lost = 0
        for attempt in range(1, TRIES + 1):
            committing = False
            try:
                async with self.connection() as connection:
                    transaction = connection.transaction()
                    await transaction.start()
                    try:
                        result = await act(connection)
                    except Exception:
                        await _roll_back(transaction)
                        raise
                    committing = True
                    await transaction.commit()
                    return result
            except StorageUnavailable as fault:
                cause = fault.__cause__
                if isinstance(cause, RACE_FAULTS) and attempt < TRIES:
                    metrics.STORAGE_RETRIES.labels(type(cause).__name__).inc()
                    continue
                if _is_lost(cause) and not committing and not lost:
                    lost += 1
                    metrics.STORAGE_RETRIES.labels("LostConnection").inc()
                    continue
                raise
        raise StorageUnavailable


class translated:  # noqa: N801 - reads as a word in `with translated():`
    """Turns every fault of the driver into `StorageUnavailable` or `StorageRejected`, with the fault as its cause."""

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        """Translate. The driver's message may quote a row, so it is never shown to a caller."""
        if fault is None or isinstance(fault, MemlaneError):
            return
        if isinstance(fault, OSError) and fault.filename is not None:
            # A file of the caller's, not a socket.
            return
        if isinstance(fault, _NEVER_TAKEN):
            raise _rejected(fault) from fault
        if isinstance(fault, (PostgresError, TimeoutError, *_LOST_CONNECTION)):
            metrics.STORAGE_FAULTS.labels(type(fault).__name__).inc()
            message = _NO_SCHEMA if isinstance(fault, (UndefinedTableError, UndefinedColumnError)) else None
            raise StorageUnavailable(message) from fault


def refusal_of_connection(fault: BaseException | None) -> Misconfigured | None:
    """What a connection string does wrong when the server answers and refuses it; None for any other fault.

    For commands that run once: a server goes on trying, as roles and databases may be made while it runs.
    """
    if isinstance(fault, InvalidAuthorizationSpecificationError):
        return Misconfigured("the database server refuses this user or password: check DATABASE_URL")
    if isinstance(fault, InvalidCatalogNameError):
        return Misconfigured("the database server has no database of that name: check DATABASE_URL")
    return None


def _count(pool: _Pool | None) -> None:
    """Let the metrics count this pool's connections when they are asked for."""
    metrics.POOL_SIZE.set_function(lambda: 0 if pool is None else pool.get_size())
    metrics.POOL_IN_USE.set_function(lambda: 0 if pool is None else pool.get_size() - pool.get_idle_size())


async def _acquired(pool: _Pool) -> "PoolConnectionProxy[asyncpg.Record]":
    if pool.get_idle_size():
        # Nothing to wait for but, at most, a connect with a bound of its own; a time limit costs a task.
        return await pool.acquire()
    async with asyncio.timeout(ACQUIRE_SECONDS + CONNECT_SECONDS):
        return await pool.acquire(timeout=ACQUIRE_SECONDS)


def _rejected(fault: Exception) -> StorageRejected:
    # Its kind and not its words: they quote the value.
    kind = type(fault).__name__
    metrics.STORAGE_FAULTS.labels(kind).inc()
    log.error("storage_rejected", kind=kind, sqlstate=getattr(fault, "sqlstate", None))
    return StorageRejected()


def _is_lost(fault: BaseException | None) -> bool:
    # A time limit that ran out is an OSError too, but a second try would only wait as long again.
    return isinstance(fault, _LOST_CONNECTION) and not isinstance(fault, TimeoutError)


async def _roll_back(transaction: Any) -> None:
    # A dead connection has rolled back already; the first fault is the one to report.
    try:
        await asyncio.wait_for(transaction.rollback(), timeout=0.5)
    except (PostgresError, TimeoutError, *_LOST_CONNECTION):
        return


async def _limit_session(connection: Connection) -> None:
    # SET and not start-up parameters: a pooler in front refuses parameters that it does not know.
    await connection.execute(
        f"set statement_timeout = {int(STATEMENT_SECONDS * 1000)};"
        f"set lock_timeout = {int(LOCK_SECONDS * 1000)};"
        "set idle_in_transaction_session_timeout = 10000;"
        "set timezone = 'UTC'; set jit = off"
    )


async def _keep_session(_connection: Connection) -> None:
    # The default reset (RESET ALL) would undo the limits above and costs a round trip on each release.
    return
