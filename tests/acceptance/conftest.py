"""A deployment of one `memlane api` process with its log, its metrics and its embedding service."""

from collections.abc import AsyncIterator

import pytest_asyncio

from memlane.storage.migrate import migrate
from support.postgres import fresh_database, private_server
from support.service import Deployment


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def whole_deployment() -> AsyncIterator[Deployment]:
    """A migrated database on a server of its own."""
    async with private_server() as server:
        dsn = await fresh_database(server)
        await migrate(dsn)
        yield Deployment(dsn)
