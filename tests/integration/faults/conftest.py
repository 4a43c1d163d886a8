"""Two API processes on one database for each Postgres version, and an embedding service that never fails."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from integration.faults.house import Pair, Running, migrated, running_process
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import migrate
from support.embedding_server import EmbeddingServer
from support.postgres import drop_database, fresh_database, private_server, template_database
from support.service import Deployment


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest.fixture(scope="session")
def embeddings() -> Iterator[EmbeddingServer]:
    """An embedding service for every process of the run; do not inject faults into it."""
    with EmbeddingServer("tei") as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lone_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A server of the newest version, for what does not depend on the version. Do not stop it."""
    async with private_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def lone_deployment(lone_postgres: EmbeddedPostgres) -> AsyncIterator[Deployment]:
    """A fresh migrated database on the newest version."""
    dsn = await fresh_database(lone_postgres, await template_database(lone_postgres, "migrated", _migrate))
    yield Deployment(dsn)
    await drop_database(lone_postgres, dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pair(postgres: EmbeddedPostgres, embeddings: EmbeddingServer) -> AsyncIterator[Pair]:
    """Two `memlane api` processes on one database, shared by the tests; each test has a project of its own."""
    dsn = await fresh_database(postgres, await template_database(postgres, "migrated", _migrate))
    deployment = Deployment(dsn)
    async with running_process(deployment, embeddings) as first, running_process(deployment, embeddings) as second:
        yield Pair(deployment, first, second)
    await drop_database(postgres, dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[EmbeddedPostgres]:
    """A server that the tests of one file freeze, stop and kill."""
    async with private_server() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deployment(server: EmbeddedPostgres) -> Deployment:
    """A migrated database on that server."""
    return await migrated(server)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(deployment: Deployment, embeddings: EmbeddingServer) -> AsyncIterator[Running]:
    """One process that lives through all of it."""
    async with running_process(deployment, embeddings) as process:
        yield process
        assert process.api.process.poll() is None, "no fault ended the process"
