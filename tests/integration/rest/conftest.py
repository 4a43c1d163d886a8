"""A served deployment for each Postgres version, and a fresh project for each test."""

import io
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
import structlog

from integration.rest.house import Borrowed, Shop
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.observability.logs import set_up_logs
from memlane.storage.migrate import migrate
from memlane.usecases.ports import Embedder
from support.postgres import drop_database, fresh_database, template_database
from support.service import Deployment, Service, running_service


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[Service]:
    """A self-hosted deployment that the tests of a process share; each has a project of its own."""
    dsn = await fresh_database(postgres, await template_database(postgres, "migrated", _migrate))
    async with running_service(Deployment(dsn), embedder=Borrowed(embedder)) as (service, _):
        yield service
    await drop_database(postgres, dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def managed_house(house: Service, embedder: Embedder) -> AsyncIterator[Service]:
    """The same database, served as a managed deployment: `acme` and `globex` have a plan with memory."""
    deployment = house.deployment
    await deployment.execute("insert into plans (code, features) values ('team', '{\"memory\": true}')")
    for organization in ("acme", "globex"):
        await deployment.project(f"seat-of-{organization}", organization)
        await deployment.execute("update organizations set plan_code = 'team' where slug = $1", organization)
    settings = deployment.settings(deployment_mode="managed", license=None, license_keys=None)
    async with running_service(deployment, settings, embedder=Borrowed(embedder)) as (service, _):
        yield service


@pytest.fixture
def shop(house: Service) -> Shop:
    """A fresh project."""
    return Shop(house)


@pytest_asyncio.fixture(loop_scope="session")
async def me(shop: Shop) -> dict[str, Any]:
    """The headers of the user `u1` with a key that allows everything."""
    return await shop.headers()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that this process logs while a test runs."""
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    set_up_logs("DEBUG", stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
