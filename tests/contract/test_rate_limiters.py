"""One suite for both limiters: of a process, and of all processes over Redis."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memlane.domain.rates import Charge, Rate
from memlane.limits.local import SUBJECTS_MAX, LocalLimiter
from memlane.limits.redis_limiter import RedisLimiter
from memlane.usecases.ports import RateLimiter
from support.redis import RedisServer, redis_server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def redis() -> AsyncIterator[RedisServer]:
    async with redis_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session", params=["local", "redis"])
async def limiter(request: pytest.FixtureRequest, redis: RedisServer) -> AsyncIterator[RateLimiter]:
    if request.param == "local":
        yield LocalLimiter()
        return
    shared = RedisLimiter(redis.url)
    yield shared
    await shared.aclose()


def charge(key: str, per_second: float = 1, cost: int = 1) -> Charge:
    return Charge(key, Rate(per_second), cost, "requests")


async def passes(limiter: RateLimiter, *charges: Charge) -> bool:
    return await limiter.charge(charges) is None


async def test_a_burst_passes_then_a_wait_is_told(limiter: RateLimiter) -> None:
    assert [await passes(limiter, charge("burst")) for _ in range(10)] == [True] * 10
    refused = await limiter.charge([charge("burst")])
    assert refused is not None
    assert refused[0].key == "burst"
    assert 0 < refused[1] <= 1


async def test_subjects_do_not_share(limiter: RateLimiter) -> None:
    assert await passes(limiter, charge("a", cost=10))
    assert not await passes(limiter, charge("a"))
    assert await passes(limiter, charge("b"))


async def test_all_charges_pass_or_none_is_made(limiter: RateLimiter) -> None:
    assert await passes(limiter, charge("full", cost=10))
    refused = await limiter.charge([charge("other", cost=6), charge("full")])
    assert refused is not None
    assert refused[0].key == "full"
    assert await passes(limiter, charge("other", cost=9)), "the other was not charged"


async def test_it_passes_again_at_the_steady_rate(limiter: RateLimiter) -> None:
    assert await passes(limiter, charge("steady", 20, 200))
    assert not await passes(limiter, charge("steady", 20))
    await asyncio.sleep(0.2)
    assert await passes(limiter, charge("steady", 20))


async def test_a_cost_that_no_burst_holds_passes_and_then_a_whole_burst_is_waited_for(limiter: RateLimiter) -> None:
    assert await passes(limiter, charge("large", 5, 60))
    refused = await limiter.charge([charge("large", 5, 60)])
    assert refused is not None
    assert 9 < refused[1] <= 10


async def test_two_processes_share_what_redis_counts(redis: RedisServer) -> None:
    one, other = RedisLimiter(redis.url), RedisLimiter(redis.url)
    assert await passes(one, charge("shared", cost=10))
    assert not await passes(other, charge("shared"))
    await one.aclose()
    await other.aclose()


async def test_while_redis_is_frozen_a_process_counts_for_itself_and_nobody_waits_long() -> None:
    async with redis_server() as server:
        limiter = RedisLimiter(server.url)
        assert await passes(limiter, charge("k"))
        server.freeze()
        began = asyncio.get_running_loop().time()
        assert [await passes(limiter, charge("k")) for _ in range(11)] == [True] * 10 + [False]
        assert asyncio.get_running_loop().time() - began < 0.9
        server.thaw()
        await limiter.aclose()


async def test_a_process_remembers_no_more_subjects_than_it_may() -> None:
    limiter = LocalLimiter()
    for number in range(SUBJECTS_MAX + 10):
        limiter.charge_now([charge(f"s{number}")])
    assert len(limiter._used) == SUBJECTS_MAX
