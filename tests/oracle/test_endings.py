"""What ends a session silences its sockets at once, and the published client says so and backs off."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from memlane.domain.lane import LaneMode
from oracle.driver import PHOENIX, Wanted
from oracle.fleet import Fleet, eventually, running_fleet
from support.service import headers_of

USER = "u1"
SILENT_MS = 5_000
UNAVAILABLE_MS = 20_000
WATCHED_SECONDS = 26.0
APART_MS = 1_950
"""Upgrades are held 2 s; the driver's clock is not the server's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What one browser saw of the end, in ms since it was ended."""

    report: dict[str, Any]
    journal: list[dict[str, Any]]
    ended_at: int

    def times(self, what: str, **more: object) -> list[int]:
        """When such entries came, before and after."""
        return [
            entry["at"] - self.ended_at
            for entry in self.journal
            if entry["what"] == what and all(entry.get(name) == value for name, value in more.items())
        ]


async def revoke_key(fleet: Fleet, project: str, _key: str) -> None:
    await fleet.deployment.execute(
        "update runtime_keys k set revoked_at = now() from lanes l, projects p"
        " where l.id = k.lane_id and p.id = k.project_id and p.slug = $1 and l.name = 'own'",
        project,
    )


async def switch_lane_off(fleet: Fleet, project: str, _key: str) -> None:
    await fleet.deployment.execute(
        "update lanes l set mode = 'off' from projects p where p.id = l.project_id and p.slug = $1 and l.name = 'own'",
        project,
    )


async def withdraw_entitlement(fleet: Fleet, project: str, _key: str) -> None:
    await fleet.deployment.execute("update plans set features = '{\"memory\": false}' where code = $1", project)


async def log_out(fleet: Fleet, _project: str, key: str) -> None:
    answer = await fleet.client.delete(f"{fleet.api_urls[0]}/api/memories/subscribe", headers=headers_of(key, USER))
    assert answer.status_code == httpx.codes.NO_CONTENT


async def end_session(fleet: Fleet, project: str, _key: str) -> None:
    await fleet.deployment.execute(
        "update stream_sessions s set first_used_at = now() - interval '25 hours'"
        " from projects p where p.id = s.project_id and p.slug = $1",
        project,
    )


ENDINGS: dict[str, Callable[[Fleet, str, str], Awaitable[None]]] = {
    "revoked-key": revoke_key,
    "lane-off": switch_lane_off,
    "withdrawn-entitlement": withdraw_entitlement,
    "log-out": log_out,
    "ended-session": end_session,
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def endings() -> AsyncIterator[dict[str, list[Ended]]]:
    """All endings at once, each in an organization of its own, while another key goes on writing."""
    async with running_fleet(MEMLANE_DEPLOYMENT_MODE="managed") as fleet:
        keys = {name: await _opened(fleet, name) for name in ENDINGS}
        await eventually(lambda: _connected(fleet), "the pages are connected", 20)
        writing = [asyncio.create_task(_write(fleet, other)) for _, other in keys.values()]
        await asyncio.sleep(2)
        ended_at = {}
        for name, end in ENDINGS.items():
            ended_at[name] = (await fleet.driver.report(f"{name}/{PHOENIX[0]}"))["now"]
            await end(fleet, name, keys[name][0])
        await asyncio.sleep(WATCHED_SECONDS)
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        yield {
            name: [
                Ended(await fleet.driver.report(client), await fleet.driver.journal(client), ended_at[name])
                for client in (f"{name}/{phoenix}" for phoenix in PHOENIX)
            ]
            for name in ENDINGS
        }


async def _opened(fleet: Fleet, name: str) -> tuple[str, str]:
    """Open a user's page on both versions; gives its key and another one of the project."""
    key = await fleet.deployment.key(name, organization=name, lane="own", mode=LaneMode.READ_WRITE)
    other = await fleet.deployment.key(name, organization=name)
    await fleet.deployment.execute("insert into plans (code, features) values ($1, '{\"memory\": true}')", name)
    await fleet.deployment.execute("update organizations set plan_code = $1 where slug = $1", name)
    await fleet.driver.bff(name, fleet.api_urls, key)
    wanted = [Wanted(f"{name}/{phoenix}", USER, phoenix) for phoenix in PHOENIX]
    await fleet.driver.open(name, fleet.balancer.url, wanted)
    return key, other


async def _connected(fleet: Fleet) -> bool:
    return all(one["realtimeStatus"] == "connected" for one in await fleet.driver.reports())


async def _write(fleet: Fleet, key: str) -> None:
    number = 0
    while True:
        number += 1
        for scope in ("user", "project"):
            await fleet.client.post(
                f"{fleet.api_urls[1]}/api/memories",
                headers=headers_of(key, USER),
                json={"content": f"Locker {number} is for visitor {number}.", "kind": "topical", "scope": scope},
            )
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("name", ENDINGS)
async def test_it_is_silent_within_5_s(endings: dict[str, list[Ended]], name: str) -> None:
    for ended in endings[name]:
        events = ended.times("event")
        assert min(events) < 0, "it heard what was written before"
        assert max(events) < SILENT_MS
        assert [at for at in ended.times("close") if 0 < at < SILENT_MS], "the socket was closed"


@pytest.mark.parametrize("name", ENDINGS)
async def test_the_client_says_unavailable_within_20_s(endings: dict[str, list[Ended]], name: str) -> None:
    for ended in endings[name]:
        assert ended.times("status", status="unavailable")[0] < UNAVAILABLE_MS
        assert ended.report["realtimeStatus"] == "unavailable"


@pytest.mark.parametrize("name", ENDINGS)
async def test_its_upgrades_come_at_most_every_2_s(endings: dict[str, list[Ended]], name: str) -> None:
    for ended in endings[name]:
        tokens = {one["token"] for one in ended.report["upgrades"]}
        assert len(tokens) == 2, "one socket for each channel"
        for token in tokens:
            tries = [at for at in ended.times("upgrade", token=token) if at > 0]
            assert all(later - earlier > APART_MS for earlier, later in itertools.pairwise(tries)), tries
