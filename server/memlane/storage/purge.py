"""Erasure of a user's, a project's or one memory's content, in batches under the channel's lock.

A batch is a transaction: tombstones, ledger rows and head stand or fall together, so a run that broke off is simply
run again and goes on where it stopped. The size of a batch follows the time that it held the lock.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
from asyncpg.exceptions import DeadlockDetectedError, LockNotAvailableError, PostgresError, QueryCanceledError

from memlane.domain.caller import Caller
from memlane.domain.errors import StorageUnavailable
from memlane.domain.ledger import CHAIN_START, chain_sha256
from memlane.storage.channel_write import ledger_row
from memlane.storage.pool import CONNECT_SECONDS, LOCK_SECONDS
from memlane.storage.statements import statement

BATCH_FIRST, BATCH_LEAST, BATCH_MOST = 50, 20, 200
"""Rows of the first batch, and its bounds. 100 rows take about 3 ms; the join by place grows with the square."""
LOCK_AIM_SECONDS = 0.012
"""How long a batch should hold its channel's lock; a writer must not wait 0.1 s, on a busy machine either."""
STATEMENT_MS = 50
"""Longest run of a batch's statement under the lock: what takes longer is rolled back and tried in smaller batches."""
TRIES = 20
"""Tries of one batch that lost its lock to a writer or took too long; from half of them on it may take its time."""
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class PurgeTarget:
    """What to erase of a project: a user's memories, one memory, or all (both None)."""

    project_id: str
    user_id: str | None = None
    memory_id: str | None = None


@dataclass(frozen=True, slots=True)
class PurgeCount:
    """What was found, or erased. ``tombstones`` were there before."""

    memories: int = 0
    live: int = 0
    tombstones: int = 0
    revisions: int = 0
    recall_marks: int = 0
    kept_answers: int = 0

    def plus(self, other: "PurgeCount") -> "PurgeCount":
        """The sum."""
        return PurgeCount(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(slots=True)
class PurgeWork:
    """How the work went. ``longest_lock_seconds`` is from having a channel's lock to the commit."""

    operator: Caller
    batches: int = 0
    longest_lock_seconds: float = 0.0
    done: PurgeCount = field(default_factory=PurgeCount)
    _size: int = BATCH_FIRST

    @property
    def size(self) -> int:
        """Rows of the next batch."""
        return self._size

    def cut_short(self) -> None:
        """A batch took too long and was rolled back."""
        self._size = max(BATCH_LEAST, self._size // 2)

    def held(self, seconds: float) -> None:
        """A batch held its lock for so long."""
        self.batches += 1
        self.longest_lock_seconds = max(self.longest_lock_seconds, seconds)
        # At most doubled: one quick batch says little of the next.
        wanted = int(self._size * min(2.0, LOCK_AIM_SECONDS / max(seconds, 0.001)))
        self._size = min(BATCH_MOST, max(BATCH_LEAST, wanted))


class _Moved(Exception):
    """A row was written anew by somebody who needs no channel's lock for that."""


class Purge:
    """One purge on a connection of its own: its statements may take longer than a request's."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]", target: PurgeTarget) -> None:
        self._connection = connection
        self._target = target

    async def survey(self) -> PurgeCount:
        """What there is to erase; changes nothing."""
        target, count = self._target, PurgeCount()
        async for channel_id, _ in self._channels():
            row: Any = await self._connection.fetchrow(
                statement("purge_survey"), target.project_id, channel_id, target.memory_id
            )
            count = count.plus(PurgeCount(**dict(row)))
        answers = await self._connection.fetchval(statement("count_answers"), *self._whose())
        return replace(count, kept_answers=answers)

    async def run(self, operator: Caller, on_batch: Callable[[int], None]) -> PurgeWork:
        """Erase what is there now; what is written meanwhile stays.

        Args:
            operator: Whom the ledger names.
            on_batch: Told how many memories were erased.

        Raises:
            StorageUnavailable: The database does not answer; what was done stays, run it again.
        """
        work = PurgeWork(operator)
        await self._limit(STATEMENT_MS)
        async for channel_id, head in self._channels():
            after = 0
            while True:
                last, count = await self._batch_with_patience(channel_id, after, head, work)
                if last is None:
                    break
                work.done = work.done.plus(count)
                on_batch(count.memories)
                after = last
        await self._limit(0)
        dropped = -1
        while dropped:
            said: str = await self._connection.execute(statement("purge_answers"), *self._whose())
            dropped = int(said.rsplit(maxsplit=1)[-1])
            work.done = work.done.plus(PurgeCount(kept_answers=dropped))
        return work

    async def _limit(self, milliseconds: int) -> None:
        await self._connection.execute(f"set statement_timeout = {milliseconds}")

    def _whose(self) -> tuple[str, str | None, str | None]:
        return self._target.project_id, self._target.user_id, self._target.memory_id

    async def _channels(self) -> AsyncIterator[tuple[str, int]]:
        after: str | None = None
        while True:
            rows = await self._connection.fetch(statement("purge_channels"), *self._whose(), after, PAGE)
            for row in rows:
                yield row["id"], row["seq"]
            if len(rows) < PAGE:
                return
            after = rows[-1]["id"]

    async def _batch_with_patience(
        self, channel_id: str, after: int, until: int, work: PurgeWork
    ) -> tuple[int | None, PurgeCount]:
        for attempt in range(1, TRIES + 1):
            patient = attempt > TRIES // 2
            if patient:
                await self._limit(0)
            try:
                return await self._batch(channel_id, after, until, work)
            except (DeadlockDetectedError, LockNotAvailableError, _Moved):
                # Somebody else came first: they are let through.
                await asyncio.sleep(0.05 * attempt)
            except QueryCanceledError:
                work.cut_short()
                await asyncio.sleep(0.05 * attempt)
            finally:
                if patient:
                    await self._limit(STATEMENT_MS)
        raise StorageUnavailable("Other writers hold a channel's lock all the time; run the purge again.")

    async def _batch(self, channel_id: str, after: int, until: int, work: PurgeWork) -> tuple[int | None, PurgeCount]:
        """Erase one batch; the old seq of its last row, or None when none was left."""
        target, connection = self._target, self._connection
        transaction = connection.transaction()
        await transaction.start()
        try:
            head: Any = await connection.fetchrow(statement("lock_channel_by_id"), target.project_id, channel_id)
            began = time.monotonic()
            rows = await connection.fetch(
                statement("purge_page"), target.project_id, channel_id, after, until, target.memory_id, work.size
            )
            if not rows:
                await transaction.rollback()
                return None, PurgeCount()
            count = await self._erase(work.operator, channel_id, head, rows)
        except BaseException:
            await transaction.rollback()
            raise
        await transaction.commit()
        work.held(time.monotonic() - began)
        return rows[-1]["seq"], count

    async def _erase(self, operator: Caller, channel_id: str, head: Any, rows: list[Any]) -> PurgeCount:
        project_id, connection = self._target.project_id, self._connection
        ids = [row["id"] for row in rows]
        seqs = list(range(head["seq"] + 1, head["seq"] + 1 + len(rows)))
        chain, chains = head["ledger_sha256"] or CHAIN_START, []
        for row, seq in zip(rows, seqs, strict=True):
            line = ledger_row(operator, channel_id, seq, row["id"], "purged", head["now"], before=row["before_sha256"])
            chain = chain_sha256(chain, line)
            chains.append(chain)
        key, provenance = operator.key, operator.provenance
        live = sum(row["live"] for row in rows)
        counts: Any = await connection.fetchrow(
            statement("purge_batch"),
            *(project_id, channel_id, ids, seqs, [row["before_sha256"] for row in rows], chains),
            *([row["ctid"] for row in rows], head["now"], key.lane.id, key.lane.name, key.id),
            *(provenance.run, provenance.source_type, provenance.source_id, key.lane.trust.value),
            *(provenance.triggered_by, operator.request_id, live),
        )
        if counts["memories"] != len(rows):
            raise _Moved
        return PurgeCount(len(rows), live, revisions=counts["revisions"], recall_marks=counts["recall_marks"])


async def connect_for_purge(dsn: str) -> "asyncpg.Connection[asyncpg.Record]":
    """A connection without a limit on a statement's time: a survey and a VACUUM take as long as they take.

    Raises:
        StorageUnavailable: The database does not answer.
    """
    try:
        connection = await asyncpg.connect(dsn, timeout=10 * CONNECT_SECONDS)
        await connection.execute(f"set statement_timeout = 0; set lock_timeout = {int(LOCK_SECONDS * 1000)}")
    except (OSError, TimeoutError, PostgresError) as fault:
        raise StorageUnavailable(f"the database does not answer ({type(fault).__name__})") from fault
    return connection
