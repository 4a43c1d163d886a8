"""One Postgres of the newest version for all commands: what they do does not depend on it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import migrate
from support.postgres import drop_database, fresh_database, private_server, template_database
from support.service import Deployment


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lone_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """Do not stop it."""
    async with private_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def lone_deployment(lone_postgres: EmbeddedPostgres) -> AsyncIterator[Deployment]:
    """A fresh migrated database."""
    dsn = await fresh_database(lone_postgres, await template_database(lone_postgres, "migrated", _migrate))
    yield Deployment(dsn)
    await drop_database(lone_postgres, dsn)


@pytest_asyncio.fixture(loop_scope="session")
async def empty_database(lone_postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The connection string of a database without anything in it."""
    dsn = await fresh_database(lone_postgres)
    yield dsn
    await drop_database(lone_postgres, dsn)
