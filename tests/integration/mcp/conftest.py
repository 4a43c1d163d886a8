"""A served deployment on one Postgres of the newest version: what a door says does not depend on it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from integration.cli.conftest import lone_postgres
from integration.rest.conftest import managed_house, shop
from integration.rest.house import Borrowed
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import migrate
from memlane.usecases.ports import Embedder
from support.postgres import fresh_database, template_database
from support.service import Deployment, Service, running_service

__all__ = ["lone_postgres", "managed_house", "shop"]


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(lone_postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[Service]:
    """A self-hosted deployment that the tests of a process share; each has a project of its own."""
    dsn = await fresh_database(lone_postgres, await template_database(lone_postgres, "migrated", _migrate))
    async with running_service(Deployment(dsn), embedder=Borrowed(embedder)) as (service, _):  # type: ignore[arg-type]
        yield service
