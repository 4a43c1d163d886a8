"""429 with Retry-After: for each key and user, and for each lane's writes; in Redis where there is one."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from integration.mcp.house import mcp_client
from integration.rest.house import Borrowed, Shop, error_of
from integration.rest.routes import GUARDED
from memlane.domain.lane import LaneMode
from memlane.limits.redis_limiter import PAUSE_SECONDS
from memlane.observability.metrics import REGISTRY
from memlane.preflight import load_settings
from memlane.usecases.ports import Embedder
from support.redis import RedisServer, redis_server
from support.service import Service, running_service

PER_USER, LANE_WRITES = 3, 2
BURST = 10


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def strict(house: Service, embedder: Embedder) -> AsyncIterator[Shop]:
    """The shared database behind a service with low limits."""
    settings = house.deployment.settings(rate_per_user=PER_USER, rate_lane_writes=LANE_WRITES)
    async with running_service(house.deployment, settings, embedder=Borrowed(embedder)) as (service, _):  # type: ignore[arg-type]
        yield Shop(service)


def draft(number: int) -> dict[str, Any]:
    return {"content": f"Shelf {number} is full.", "kind": "topical"}


def batch(size: int) -> dict[str, Any]:
    return {"memories": [draft(number) for number in range(size)]}


async def until_limited(shop: Shop, me: dict[str, Any]) -> int:
    """How many lists pass before 429."""
    passed = 0
    while (answer := await shop.client.get("/api/memories?limit=1", headers=me)).status_code == 200:
        passed += 1
        assert passed < 200
    assert error_of(answer) == (429, "RATE_LIMITED")
    assert int(answer.headers["retry-after"]) >= 1
    assert "try again in" in answer.json()["error"]["message"]
    return passed


async def test_a_key_and_user_have_a_burst_and_others_are_not_touched(strict: Shop) -> None:
    key = await strict.headers("ada")
    before = REGISTRY.get_sample_value("memlane_denials_total", {"code": "RATE_LIMITED"}) or 0
    began = time.monotonic()
    passed = await until_limited(strict, key)
    assert PER_USER * BURST <= passed <= PER_USER * (BURST + time.monotonic() - began) + 1
    assert REGISTRY.get_sample_value("memlane_denials_total", {"code": "RATE_LIMITED"}) == before + 1
    other_user = {**key, "X-Cpki-User-Id": "bob"}
    assert (await strict.client.get("/api/memories", headers=other_user)).status_code == 200
    assert (await strict.client.get("/api/memories", headers=await strict.headers("ada"))).status_code == 200


async def test_a_lane_has_its_own_limit_of_writes_over_all_its_keys_and_users(strict: Shop) -> None:
    lane = {"lane": "busy", "mode": LaneMode.READ_WRITE}
    first, second = await strict.headers("u1", **lane), await strict.headers("u2", **lane)
    assert (await strict.post(first, batch(LANE_WRITES * BURST - 1), "/api/memories/batch")).status_code == 200
    answers = await asyncio.gather(*(strict.post(second, draft(number)) for number in range(20)))
    assert 429 in {answer.status_code for answer in answers}
    refusals = [answer for answer in answers if answer.status_code == 429]
    assert {error_of(answer) for answer in refusals} == {(429, "RATE_LIMITED")}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refusals)
    # In a lane that rested the same batch passes: see below.
    assert error_of(await strict.post(first, batch(100), "/api/memories/batch")) == (429, "RATE_LIMITED")
    async with mcp_client(strict.service.url, first) as client:
        tried = (client.call_tool("save_memory", {"content": "Likes tea.", "kind": "topical"}) for _ in range(20))
        codes = {(one.meta or {}).get("memlane/error", {}).get("code") for one in await asyncio.gather(*tried)}
        assert "RATE_LIMITED" in codes
        assert not (await client.call_tool("recall_memory", {"query": "shelf"})).is_error, "reads go on"
    # Another lane writes on.
    assert (await strict.post(await strict.headers("u1"), draft(100))).status_code == 201


@pytest.mark.parametrize("size", [LANE_WRITES * BURST + 1, 100])
async def test_a_batch_that_no_burst_holds_passes_in_a_lane_that_rested_and_uses_it_up(strict: Shop, size: int) -> None:
    me = await strict.headers("u1", lane=f"batch-{size}", mode=LaneMode.READ_WRITE)
    # What only reads uses up nothing of the lane.
    assert (await strict.client.get("/api/memories?limit=1", headers=me)).status_code == 200
    began = time.monotonic()
    saved = await strict.post(me, batch(size), "/api/memories/batch")
    assert (saved.status_code, len(saved.json()["outcomes"])) == (200, size)
    refusal = await strict.post(me, batch(size), "/api/memories/batch")
    assert error_of(refusal) == (429, "RATE_LIMITED")
    assert BURST - (time.monotonic() - began) <= int(refusal.headers["retry-after"]) <= BURST
    assert "writes of this key's lane" in refusal.json()["error"]["message"]


async def test_a_batch_that_comes_back_when_it_was_told_passes(strict: Shop) -> None:
    me = await strict.headers("u1", lane="patient", mode=LaneMode.READ_WRITE)
    assert (await strict.post(me, batch(LANE_WRITES * BURST + 1), "/api/memories/batch")).status_code == 200
    refusal = await strict.post(me, batch(LANE_WRITES * 4), "/api/memories/batch")
    assert error_of(refusal) == (429, "RATE_LIMITED")
    await asyncio.sleep(int(refusal.headers["retry-after"]))
    assert (await strict.post(me, batch(LANE_WRITES * 4), "/api/memories/batch")).status_code == 200


async def test_a_batch_that_is_not_valid_uses_up_nothing_of_its_lane(strict: Shop) -> None:
    me = await strict.headers("u1", lane="clumsy", mode=LaneMode.READ_WRITE)
    for _ in range(3):
        assert (await strict.post(me, {"memories": []}, "/api/memories/batch")).status_code == 400
    assert (await strict.post(me, batch(LANE_WRITES * BURST), "/api/memories/batch")).status_code == 200


async def test_the_rate_is_told_before_lane_and_grant_and_body(strict: Shop) -> None:
    me = await strict.headers("eve", lane="closed", mode=LaneMode.OFF)
    codes = [error_of(await strict.post(me, {}))[1] for _ in range(PER_USER * BURST + 15)]
    assert (codes[0], codes[-1]) == ("LANE_OFF", "RATE_LIMITED")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two services with one database, low limits from the environment, and a Redis between them."""

    redis: RedisServer
    shops: tuple[Shop, Shop]

    async def passed(self, me: dict[str, Any], shop: int, tries: int) -> int:
        """How many of so many lists pass."""
        one = self.shops[shop].client
        answers = [await one.get("/api/memories?limit=1", headers=me) for _ in range(tries)]
        return sum(answer.status_code == 200 for answer in answers)


@pytest_asyncio.fixture(loop_scope="session")
async def pair(house: Service, embedder: Embedder) -> AsyncIterator[Pair]:
    async with redis_server() as redis:
        settings = load_settings(
            house.deployment.environment(
                REDIS_URL=redis.url,
                MEMLANE_RATE_PER_USER=str(PER_USER),
                MEMLANE_RATE_LANE_WRITES=str(LANE_WRITES),
            )
        )
        serving = [
            running_service(house.deployment, settings, embedder=Borrowed(embedder))  # type: ignore[arg-type]
            for _ in range(2)
        ]
        async with serving[0] as (first, _), serving[1] as (second, _):
            yield Pair(redis, (Shop(first), Shop(second)))


async def test_services_with_a_redis_share_one_limit(pair: Pair) -> None:
    half = PER_USER * BURST // 2
    for attempt in range(5):
        me, before, began = await pair.shops[0].headers("ada"), fallbacks(), time.monotonic()
        passed = [await pair.passed(me, shop, half) for shop in (0, 1)]
        more = sum([await pair.passed(me, shop, half) for shop in (0, 1)])
        seconds = time.monotonic() - began
        writer = await pair.shops[0].headers("bob", lane=f"shared-{attempt}", mode=LaneMode.READ_WRITE)
        written, refusal = [
            await shop.post(writer, batch(LANE_WRITES * BURST), "/api/memories/batch") for shop in pair.shops
        ]
        if fallbacks() == before:
            break
        # On a busy machine Redis may not answer in time; nothing is shared then.
        await asyncio.sleep(PAUSE_SECONDS)
    assert fallbacks() == before
    assert passed == [half, half]
    assert more <= PER_USER * seconds + 1, "the burst of one is used up by both"
    assert written.status_code == 200
    assert error_of(refusal) == (429, "RATE_LIMITED")


async def test_without_its_redis_each_service_counts_for_itself(pair: Pair) -> None:
    me = await pair.shops[0].headers("ada")
    await pair.redis.stop()
    before, began = fallbacks(), time.monotonic()
    passed = [await pair.passed(me, shop, PER_USER * BURST * 2) for shop in (0, 1)]
    most = PER_USER * (BURST + time.monotonic() - began) + 1
    assert all(PER_USER * BURST <= one <= most for one in passed), passed
    assert fallbacks() > before


def fallbacks() -> float:
    return REGISTRY.get_sample_value("memlane_rate_fallbacks_total") or 0


async def test_a_service_without_limits_never_says_429(shop: Shop, me: dict[str, Any]) -> None:
    answers = [(await shop.client.get("/api/memories?limit=1", headers=me)).status_code for _ in range(120)]
    assert set(answers) == {200}


async def test_the_reference_names_429_for_every_route_that_is_charged(shop: Shop) -> None:
    paths = (await shop.client.get("/api/openapi.json")).json()["paths"]
    assert [
        f"{method} {path}" for method, path in GUARDED if "429" not in paths[path][method.lower()]["responses"]
    ] == []
