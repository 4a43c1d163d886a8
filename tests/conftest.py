"""Fixtures of every test that needs the service: real Postgres of both bundled versions, a real server."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import migrate
from memlane.usecases.ports import Embedder
from support.embedding_server import shared_local_embedder
from support.postgres import database, drop_database, fresh_database, postgres, template_database
from support.service import Deployment, Service, running_service

__all__ = ["database", "postgres"]


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    """The offline model, loaded once for the whole run."""
    return shared_local_embedder()


@pytest_asyncio.fixture(loop_scope="session")
async def deployment(postgres: EmbeddedPostgres) -> AsyncIterator[Deployment]:
    """A fresh migrated database and a license for `acme`."""
    template = await template_database(postgres, "migrated", _migrate)
    dsn = await fresh_database(postgres, template)
    yield Deployment(dsn)
    await drop_database(postgres, dsn)


@pytest_asyncio.fixture(loop_scope="session")
async def service(deployment: Deployment, embedder: Embedder) -> AsyncIterator[Service]:
    """The API on a fresh database."""
    async with running_service(deployment, embedder=_Borrowed(embedder)) as (running, _):
        yield running


class _Borrowed:
    """The shared embedder; a service that stops does not close it."""

    def __init__(self, owner: Embedder) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> object:
        return getattr(self._owner, name)

    async def aclose(self) -> None:
        """Leave it open for the next test."""
