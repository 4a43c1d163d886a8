"""Postgres for tests: a server for each bundled version and test process, and fresh databases on it.

Import the fixtures into a conftest: `from support.postgres import database, postgres`. A test that takes
`database` (a connection string) or `postgres` (the server) runs once on each version of MEMLANE_TEST_PG
(default `16,18`). Under pytest-xdist every worker has servers of its own. They do not sync to disk.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

import asyncpg
import pytest
import pytest_asyncio

from memlane.embedded.binaries import PostgresVersion
from memlane.embedded.postgres import DEFAULT_VERSION, EmbeddedPostgres

VERSIONS = tuple(cast("PostgresVersion", int(word)) for word in os.environ.get("MEMLANE_TEST_PG", "16,18").split(","))

Prepare = Callable[[str], Awaitable[None]]
"""Prepares the database behind a connection string, for example by migrating it, and leaves no connection."""

_MEMORY_BYTES = 2 << 30
"""Least free space for test servers to lie in memory: about 100 MB each, and 8 MB for each database."""

_numbers = itertools.count(1)
_templates: WeakKeyDictionary[EmbeddedPostgres, dict[str, str]] = WeakKeyDictionary()


def memory_folder() -> str | None:
    """Name a folder in memory that has room for servers; None when there is none, for the temporary folder.

    A new database is a thousand small files: a disk that others keep busy takes a second for them.
    """
    folder = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a private folder in it
    if folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _MEMORY_BYTES:
        return str(folder)
    return None


@asynccontextmanager
async def private_server(
    version: PostgresVersion = DEFAULT_VERSION, *, durable: bool = False
) -> AsyncIterator[EmbeddedPostgres]:
    """Lend a server that no other test uses, so that a fault test may stop, kill and start it."""
    folder = tempfile.mkdtemp(prefix="memlane-pg-", dir=None if durable else memory_folder())
    server = EmbeddedPostgres(Path(folder), version, durable=durable)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        shutil.rmtree(folder)


async def fresh_database(server: EmbeddedPostgres, template: str | None = None) -> str:
    """Make a database and give its connection string.

    Args:
        server: A running server.
        template: Name of a database to copy (see `template_database`); nobody may be connected to it.
    """
    name = f"t{os.getpid()}_{next(_numbers)}"
    copied = f' template "{template}"' if template else ""
    await _execute(server, f'create database "{name}"{copied}')
    return server.dsn(name)


async def drop_database(server: EmbeddedPostgres, dsn: str) -> None:
    """Drop a database that `fresh_database` made, and cut who is connected to it."""
    name = dsn.partition("@/")[2].partition("?")[0]
    await _execute(server, f'drop database if exists "{name}" with (force)')


async def template_database(server: EmbeddedPostgres, name: str, prepare: Prepare) -> str:
    """Make a database once for each server, prepare it, and give its name, as a template of fresh ones."""
    made = _templates.setdefault(server, {})
    if name not in made:
        await server.ensure_database(name)
        await prepare(server.dsn(name))
        made[name] = name
    return name


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=VERSIONS, ids=lambda v: f"pg{v}")
async def postgres(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedPostgres]:
    """A server for this version, shared by the tests of this process. Do not stop it."""
    async with private_server(request.param) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The connection string of an empty database of this test's own."""
    dsn = await fresh_database(postgres)
    yield dsn
    await drop_database(postgres, dsn)


async def _execute(server: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(server.dsn("postgres"), timeout=5)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
