"""The published client, step by step: restarts, gaps, outages and late answers, on both versions of phoenix."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

import pytest

from oracle.fleet import Fleet, Gateway, Page, eventually

OUTAGE_SECONDS = 2.5
"""The restart that the contract promises to survive; the client gives up after 3.1 s."""
RESENT_SECONDS = 17.0
"""After an answer, everything that it could have overwritten has been sent again."""
TRUST_SECONDS = 16.0
"""So long after hints were lost a gateway trusts them again."""
SWEEP_SECONDS = 2.0
MARGIN_SECONDS = 1.0

_numbers = itertools.count(1)


def statement() -> str:
    """A text that says something else than any other."""
    number = next(_numbers)
    return f"The locker {number} is reserved for visitor number {number}."


async def kill(gateway: Gateway) -> None:
    gateway.process.kill()


async def terminate(gateway: Gateway) -> None:
    assert await asyncio.to_thread(gateway.process.terminate) == 0


@pytest.mark.parametrize("end", [terminate, kill], ids=["SIGTERM", "SIGKILL"])
async def test_it_survives_a_restart_of_2_5_s(
    fleet: Fleet, page: Page, end: Callable[[Gateway], Awaitable[None]]
) -> None:
    gone = await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    restart = asyncio.create_task(fleet.replace_all(outage_seconds=OUTAGE_SECONDS, end=end))
    await fleet.out_of_reach()
    made = await page.save(statement())
    await page.retire(gone)
    await restart
    await eventually(page.are_true, "what changed meanwhile is seen")
    assert await page.show(made)
    assert await page.never_unavailable()


async def test_it_survives_a_rolling_restart(fleet: Fleet, page: Page) -> None:
    for old in list(fleet.gateways):
        await fleet.add_gateway()
        ending = asyncio.create_task(terminate(old))
        while not ending.done():
            await page.save(statement())
            await asyncio.sleep(0.2)
        await ending
        fleet.forget(old)
    await eventually(page.are_true, "what changed meanwhile is seen")
    assert await page.never_unavailable()


async def test_a_change_between_the_snapshot_and_the_join_is_seen(fleet: Fleet, page: Page) -> None:
    gone = await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    for name in page.names:
        await fleet.driver.hold(name, "subscribe", 2000)
    await fleet.driver.reload(page.names)
    await eventually(lambda: page.show(gone), "the list has arrived")
    assert not await page.connected()
    made = await page.save(statement())
    await page.retire(gone)
    await eventually(page.connected, "the pages are connected")
    await eventually(page.are_true, "what changed before the join is seen", SWEEP_SECONDS + MARGIN_SECONDS)
    assert await page.show(made)


async def test_a_change_while_the_socket_was_away_is_seen(fleet: Fleet, page: Page) -> None:
    gone = await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    fleet.balancer.refusing = True
    fleet.balancer.cut()
    made = await page.save(statement())
    await page.retire(gone)
    await asyncio.sleep(1)
    fleet.balancer.refusing = False
    await eventually(page.are_true, "what changed meanwhile is seen", 5)
    assert await page.show(made)
    assert await page.never_unavailable()


async def test_a_redis_outage_delays_by_at_most_2_s_and_loses_nothing(fleet: Fleet, page: Page) -> None:
    first = await page.save(statement())
    await eventually(lambda: page.show(first), "the row is shown")

    async def ready(status: int) -> bool:
        return all([await fleet.status(gateway, "/api/ready") == status for gateway in fleet.gateways])

    await eventually(lambda: ready(200), "every gateway is ready")
    await fleet.redis.stop()
    try:
        for _ in range(4):
            made = await page.save(statement())
            took = await eventually(partial(page.show, made), "a change in the outage is seen")
            assert took < SWEEP_SECONDS + MARGIN_SECONDS
        await eventually(lambda: ready(503), "ready turns red", 5)
        assert all([await fleet.status(gateway, "/api/accepting") == 200 for gateway in fleet.gateways])
    finally:
        await fleet.redis.start()
    await eventually(lambda: ready(200), "ready turns green", 5)
    made = await page.save(statement())
    took = await eventually(lambda: page.show(made), "a change after the outage is seen")
    assert took < MARGIN_SECONDS
    assert await page.are_true()
    assert await page.never_unavailable()


async def test_a_late_answer_to_a_save_does_not_bring_a_retired_row_back(fleet: Fleet, page: Page) -> None:
    async def act(name: str, content: str) -> None:
        await fleet.driver.act(name, "addMemory", {"content": content, "kind": "topical"})

    await _late_answer(fleet, page, "add", act)


async def test_a_late_answer_to_a_supersede_does_not_bring_a_retired_row_back(fleet: Fleet, page: Page) -> None:
    target = await page.save(statement())
    await eventually(lambda: page.show(target), "the target is shown")

    async def act(name: str, content: str) -> None:
        await fleet.driver.act(name, "updateMemory", target, {"content": content, "kind": "topical"})

    await _late_answer(fleet, page, "update", act)


async def _late_answer(
    fleet: Fleet, page: Page, kind: str, act: Callable[[str, str], Coroutine[Any, Any, None]]
) -> None:
    name, content = page.names[0], statement()
    await fleet.driver.hold(name, kind, 6000)
    writing = asyncio.create_task(act(name, content))
    made: list[str] = []

    async def written() -> bool:
        rows = (await fleet.live_rows(page.project)).get(page.user, {})
        made.extend(row for row, (_, _, text) in rows.items() if text == content)
        return bool(made)

    await eventually(written, "the row is written")
    await page.retire(made[0])
    await eventually(lambda: page.hide(made[0]), "the row is gone")
    await writing
    await eventually(lambda: page.hide(made[0]), "the row is gone again", RESENT_SECONDS)
    assert await page.came(name, made[0]) == 2, "the late answer brought the row back for a moment"
    assert await page.are_true()


async def test_a_late_list_is_corrected(fleet: Fleet, page: Page) -> None:
    name, gone = page.names[0], await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    await fleet.driver.hold(name, "list", 4000)
    refreshing = asyncio.create_task(fleet.driver.act(name, "refresh"))
    await asyncio.sleep(1)
    made = await page.save(statement())
    await page.retire(gone)
    await eventually(page.are_true, "the change is seen before the list comes")
    await refreshing
    await eventually(page.are_true, "the list is corrected", RESENT_SECONDS)
    assert await page.came(name, gone) == 2, "the late list brought the row back for a moment"
    assert await page.went(name, made) == 1


async def test_a_list_asked_for_before_a_gateway_was_killed_is_corrected(fleet: Fleet, page: Page) -> None:
    """No gateway that runs when the list arrives has heard of the answer."""
    name, gone = page.names[0], await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    await fleet.driver.hold(name, "list", 9000)
    refreshing: list[asyncio.Task[object]] = []

    async def ask_and_kill(gateway: Gateway) -> None:
        if not refreshing:
            refreshing.append(asyncio.create_task(fleet.driver.act(name, "refresh")))
        await asyncio.sleep(0.7)
        gateway.process.kill()

    restart = asyncio.create_task(fleet.replace_all(outage_seconds=1.5, end=ask_and_kill))
    await fleet.out_of_reach()
    await page.retire(gone)
    await restart
    await eventually(page.are_true, "what changed meanwhile is seen before the list comes", 5)
    await refreshing[0]
    await eventually(page.are_true, "the list is corrected", RESENT_SECONDS)
    assert await page.came(name, gone) == 2, "the late list brought the row back for a moment"


async def test_a_list_whose_fence_was_lost_on_its_way_to_redis_is_corrected(fleet: Fleet, page: Page) -> None:
    """The publishers' connections are cut again and again; no gateway sees that anything is lost."""
    name, gone = page.names[0], await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    await fleet.driver.hold(name, "list", 6000)
    refreshing = asyncio.create_task(fleet.driver.act(name, "refresh"))
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        await fleet.redis.kill_clients("normal")
    await page.retire(gone)
    await eventually(lambda: page.hide(gone), "the row is gone")
    await refreshing
    await eventually(page.are_true, "the list is corrected", RESENT_SECONDS)
    assert await page.came(name, gone) == 2, "the late list brought the row back for a moment"


@pytest.mark.parametrize("blind", [False, True], ids=["noticed", "not yet noticed"])
async def test_a_list_answered_while_redis_was_away_is_corrected_on_another_socket(
    fleet: Fleet, page: Page, *, blind: bool
) -> None:
    """Its fence is unheard, and the client learns of the change by joining anew."""
    name, gone = page.names[0], await page.save(statement())
    await eventually(lambda: page.show(gone), "the row is shown")
    if blind:
        # Until then every change counts as fenced, because of what an earlier test has done to Redis.
        await asyncio.sleep(TRUST_SECONDS)
    await fleet.driver.hold(name, "list", 8000)
    fleet.redis.freeze()
    try:
        refreshing = asyncio.create_task(fleet.driver.act(name, "refresh"))
        await asyncio.sleep(0.3)
        fleet.balancer.refusing = True
        fleet.balancer.cut()
        await page.retire(gone)
        # A silent Redis counts as gone after 2 s.
        await asyncio.sleep(0 if blind else 2)
        fleet.balancer.refusing = False
        await eventually(lambda: page.hide(gone), "the row is gone")
        await refreshing
        await eventually(page.are_true, "the list is corrected", RESENT_SECONDS)
    finally:
        fleet.balancer.refusing = False
        fleet.redis.thaw()
    assert await page.came(name, gone) == 2, "the late list brought the row back for a moment"


async def test_a_stalled_reader_catches_up(fleet: Fleet, page: Page) -> None:
    links = fleet.balancer.stall(page.user)
    assert links
    await fleet.flood(page.key, page.user, 250, Random(1))  # noqa: S311 - no secret
    assert not await page.are_true()
    for link in links:
        link.reading.set()
    await eventually(page.are_true, "everything is shown", 20)
    assert await page.never_unavailable()
