"""Plain SQL migrations, one file each, applied in order under an advisory lock.

Each file runs in a transaction of its own and is recorded with its SHA-256. Refused, with what to do: a gap,
a file that was changed after it ran, and a database that is newer than this program.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

import asyncpg
from asyncpg.exceptions import (
    FeatureNotSupportedError,
    InsufficientPrivilegeError,
    OperatorInterventionError,
    PostgresConnectionError,
    PostgresError,
    UndefinedFileError,
    UndefinedTableError,
)

from memlane.domain.errors import Misconfigured, StorageUnavailable
from memlane.storage.pool import Connection, Pool

ADVISORY_LOCK = 0x6D656D6C616E65  # "memlane" in ASCII
"""The key of the advisory lock that one migration run holds."""
OLDEST_SERVER = 140000
"""Postgres 14: the oldest version that the tests' SQL is written for."""
OLDEST_PGVECTOR = (0, 7, 0)
"""pgvector 0.7 brought halfvec."""
_FILE = re.compile(r"^(\d{4})_\w+\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, in hex."""
        return sha256(self.sql.encode()).hexdigest()


class MigrationRefused(Misconfigured):
    """The database's migrations and this program's do not fit."""


def migrations() -> list[Migration]:
    """All migrations in order.

    Raises:
        MigrationRefused: A number is missing or taken twice.
    """
    found = []
    for file in sorted(files("memlane.storage").joinpath("migrations").iterdir(), key=lambda file: file.name):
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), file.name, file.read_text(encoding="utf-8")))
    for expected, migration in enumerate(found, start=1):
        if migration.number != expected:
            raise MigrationRefused(f"migration {expected:04d} is missing before {migration.name}")
    return found


def pending(applied: dict[int, str], known: list[Migration]) -> list[Migration]:
    """Which migrations are still to run; a pure decision.

    Args:
        applied: Checksum by number, as recorded in the database.
        known: This program's migrations, in order.

    Raises:
        MigrationRefused: A gap, a changed file, or a newer database.
    """
    if len(applied) > len(known):
        raise MigrationRefused(
            f"the database has migration {max(applied):04d}, which this version of memlane does not know: "
            "install the newer version (a downgrade is not possible)"
        )
    for expected in range(1, len(applied) + 1):
        if expected not in applied:
            raise MigrationRefused(f"the database has a gap: migration {expected:04d} is not recorded")
        if applied[expected] != known[expected - 1].checksum:
            raise MigrationRefused(f"{known[expected - 1].name} was changed after it ran")
    return known[len(applied) :]


async def applied_migrations(connection: Connection) -> dict[int, str]:
    """Checksum by number of what ran on this database; empty on a fresh one."""
    try:
        rows = await connection.fetch("select number, checksum from schema_migrations")
    except UndefinedTableError:
        return {}
    return {row["number"]: row["checksum"] for row in rows}


async def migrate(
    dsn: str, *, on_step: Callable[[Migration], None] = lambda _: None, up_to: int | None = None
) -> list[Migration]:
    """Bring a database up to date. Two runs at once wait for each other; the second finds nothing to do.

    Args:
        dsn: Where; the role must own the schema. A direct connection, not one through a transaction pooler.
        on_step: Called before each migration.
        up_to: The last number to apply; all by default.

    Returns:
        What was applied now.

    Raises:
        StorageUnavailable: The database does not answer.
        MigrationRefused: See `pending`; also an old server, or a pgvector that is missing or too old.
    """
    try:
        connection = await asyncpg.connect(dsn, timeout=10.0)
    except (OSError, TimeoutError, PostgresError) as fault:
        raise StorageUnavailable(f"the database does not answer ({type(fault).__name__})") from fault
    except (ValueError, asyncpg.InterfaceError):
        # Not chained: the driver's message quotes the connection string.
        raise Misconfigured(
            "DATABASE_URL is not a connection string: postgresql://user:password@host/database"
        ) from None
    try:
        return await _migrate(connection, on_step, up_to)
    except InsufficientPrivilegeError as fault:
        raise MigrationRefused(
            "this role may not change the schema: let its owner run `GRANT USAGE, CREATE ON SCHEMA public TO <role>;` "
            "in this database, or migrate as the owner, then run `memlane migrate` again"
        ) from fault
    except (OSError, PostgresConnectionError, OperatorInterventionError, asyncpg.InterfaceError) as fault:
        raise StorageUnavailable(
            f"the connection broke ({type(fault).__name__}); run `memlane migrate` again: what was applied stays, and "
            "the migration under way was rolled back"
        ) from fault
    finally:
        # Closing the session also frees the advisory lock.
        await _close(connection)


async def _migrate(connection: Connection, on_step: Callable[[Migration], None], up_to: int | None) -> list[Migration]:
    await _check_server(connection)
    await connection.execute("select pg_advisory_lock($1)", ADVISORY_LOCK)
    await _ensure_pgvector(connection)
    await connection.execute(
        "create table if not exists schema_migrations (number integer primary key, name text not null, "
        "checksum text not null, applied_at timestamptz not null default clock_timestamp())"
    )
    todo = [
        migration
        for migration in pending(await applied_migrations(connection), migrations())
        if up_to is None or migration.number <= up_to
    ]
    for migration in todo:
        on_step(migration)
        await _apply(connection, migration)
    return todo


async def _apply(connection: Connection, migration: Migration) -> None:
    try:
        async with connection.transaction():
            await connection.execute(migration.sql)
            await connection.execute(
                "insert into schema_migrations (number, name, checksum) values ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.checksum,
            )
    except (InsufficientPrivilegeError, PostgresConnectionError, OperatorInterventionError):
        raise
    except PostgresError as fault:
        # Its kind and not its words: they can quote a row.
        raise MigrationRefused(
            f"{migration.name} failed and was rolled back ({type(fault).__name__}, {fault.sqlstate}): the server's log "
            "says more; mend that, then run `memlane migrate` again"
        ) from fault


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=5.0)
    except (OSError, PostgresError, asyncpg.InterfaceError):
        connection.terminate()


async def _check_server(connection: Connection) -> None:
    version = int(await connection.fetchval("select current_setting('server_version_num')"))
    if version < OLDEST_SERVER:
        raise MigrationRefused(f"Postgres 14 or later is needed; this server is {version // 10000}")


async def _ensure_pgvector(connection: Connection) -> None:
    installed = await connection.fetchval("select extversion from pg_extension where extname = 'vector'")
    if installed is None:
        try:
            await connection.execute("create extension if not exists vector")
        except (UndefinedFileError, FeatureNotSupportedError) as fault:
            raise MigrationRefused(
                "pgvector is not installed on the database server: install it there (Debian and Ubuntu: "
                "apt-get install postgresql-<version>-pgvector), then run `memlane migrate` again"
            ) from fault
        except InsufficientPrivilegeError as fault:
            raise MigrationRefused(
                "this role may not create the extension: let a superuser run `CREATE EXTENSION vector;` in this "
                "database, then run `memlane migrate` again"
            ) from fault
        installed = await connection.fetchval("select extversion from pg_extension where extname = 'vector'")
    if tuple(int(part) for part in installed.split(".")[:3]) < OLDEST_PGVECTOR:
        raise MigrationRefused(
            f"pgvector 0.7 or later is needed; this database has {installed}: run `ALTER EXTENSION vector UPDATE;`"
        )


async def pending_migrations(pool: Pool) -> int:
    """How many of this program's migrations the database lacks.

    Raises:
        StorageUnavailable: The database does not answer.
        MigrationRefused: See `pending`.
    """
    return len(pending(await pool.read(applied_migrations), migrations()))
