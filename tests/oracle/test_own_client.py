"""Our own client, step by step, behind the same balancer and on the same processes as the published one."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest_asyncio

from oracle.driver import OWN, Wanted
from oracle.fleet import Fleet, Gateway, Page, eventually

PROJECT = "own"
LONG_OUTAGE_SECONDS = 12.0
"""The published client gives up after 3.1 s."""
BACK_SECONDS = 25.0

_numbers = itertools.count(1)


@pytest_asyncio.fixture(loop_scope="session")
async def own_page(fleet: Fleet) -> AsyncIterator[Page]:
    """A user whose page is open in two browsers; both are connected."""
    key = await fleet.deployment.key(PROJECT)
    names = (f"{PROJECT}/1", f"{PROJECT}/2")
    await fleet.driver.bff(PROJECT, fleet.api_urls, key)
    opened = Page(fleet, PROJECT, key, f"u{next(_numbers)}", names)
    await fleet.driver.open(PROJECT, fleet.balancer.url, [Wanted(name, opened.user, OWN) for name in names])
    await eventually(opened.connected, "the pages are connected")
    yield opened
    await fleet.driver.close(names)


async def _events(page: Page) -> list[list[int]]:
    """By browser: the seq of every change that it was told, in order."""
    journals = [await page.fleet.driver.journal(name) for name in page.names]
    return [[entry["seq"] for entry in journal if entry["what"] == "event"] for journal in journals]


async def _reconnected(page: Page) -> None:
    before = [len(report["upgrades"]) for report in await page.fleet.driver.reports(page.names)]
    page.fleet.balancer.cut()

    async def again() -> bool:
        reports = await page.fleet.driver.reports(page.names)
        return await page.connected() and all(
            len(one["upgrades"]) > upgrades for one, upgrades in zip(reports, before, strict=True)
        )

    await eventually(again, "the pages are connected again", BACK_SECONDS)


async def test_after_a_clean_reconnect_no_row_is_told_twice(own_page: Page) -> None:
    for number in range(5):
        await own_page.save(f"The locker {number} is reserved for visitor number {number}.")
    await eventually(own_page.are_true, "the rows are shown")
    told = await _events(own_page)
    assert [len(seqs) for seqs in told] == [5, 5]
    for _ in range(3):
        await _reconnected(own_page)
    await asyncio.sleep(1)
    assert await _events(own_page) == told
    made = await own_page.save("The locker 99 is reserved for visitor number 99.")
    await eventually(lambda: own_page.show(made), "the next row is shown")
    assert [len(seqs) for seqs in await _events(own_page)] == [6, 6]


async def test_it_comes_back_from_an_outage_that_the_published_client_does_not_survive(
    fleet: Fleet, own_page: Page
) -> None:
    gone = await own_page.save("The locker 7 is reserved for visitor number 7.")
    await eventually(lambda: own_page.show(gone), "the row is shown")

    async def kill(gateway: Gateway) -> None:
        gateway.process.kill()

    restart = asyncio.create_task(fleet.replace_all(outage_seconds=LONG_OUTAGE_SECONDS, end=kill))
    await fleet.out_of_reach()
    made = await own_page.save("The locker 8 is reserved for visitor number 8.")
    await own_page.retire(gone)
    await restart
    await eventually(own_page.connected, "the pages are connected again", BACK_SECONDS)
    await eventually(own_page.are_true, "what changed meanwhile is seen")
    assert await own_page.show(made)
    reports = await fleet.driver.reports(own_page.names)
    assert [report["replays"] for report in reports] == [0, 0]
    assert not [line for report in reports for line in report["violations"]]
