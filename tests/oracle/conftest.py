"""One fleet for the tests of the stock client; each has a project and clients of its own."""

import itertools
from collections.abc import AsyncIterator

import pytest_asyncio

from oracle.driver import PHOENIX, Wanted
from oracle.fleet import Fleet, Page, eventually, running_fleet

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet() -> AsyncIterator[Fleet]:
    """Two APIs, two gateways, a balancer, Postgres, Redis and the driver."""
    async with running_fleet() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def page(fleet: Fleet) -> AsyncIterator[Page]:
    """A user whose page is open in two browsers, one on each phoenix; both are connected."""
    project = f"p{next(_numbers)}"
    key = await fleet.deployment.key(project)
    names = tuple(f"{project}/{phoenix}" for phoenix in PHOENIX)
    await fleet.driver.bff(project, fleet.api_urls, key)
    opened = Page(fleet, project, key, "u1", names)
    await fleet.driver.open(
        project,
        fleet.balancer.url,
        [Wanted(name, opened.user, phoenix) for name, phoenix in zip(names, PHOENIX, strict=True)],
    )
    await eventually(opened.connected, "the pages are connected")
    yield opened
    await fleet.driver.close(names)
