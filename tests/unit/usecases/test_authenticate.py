import asyncio
from collections.abc import Awaitable, Callable

import pytest

from memlane.domain.errors import StorageUnavailable
from memlane.usecases.authenticate import CACHE_MAX, CACHE_SECONDS, BriefCache


class Hands:
    """A monotonic clock that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Source:
    """What is looked up; counts how often."""

    def __init__(self) -> None:
        self.value = "first"
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        return self.value


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def source() -> Source:
    return Source()


def cached(hands: Hands) -> BriefCache[str, str]:
    return BriefCache(hands)


def test_a_cached_answer_is_younger_than_the_promise_of_5_s() -> None:
    assert CACHE_SECONDS < 5


async def test_a_young_entry_is_served_without_a_look_up(hands: Hands, source: Source) -> None:
    cache = cached(hands)
    await cache.get("k", source)
    source.value = "second"
    hands.now += CACHE_SECONDS - 0.001
    assert await cache.get("k", source) == "first"
    assert source.asked == 1


async def test_an_entry_at_its_age_is_looked_up_anew(hands: Hands, source: Source) -> None:
    cache = cached(hands)
    await cache.get("k", source)
    source.value = "second"
    hands.now += CACHE_SECONDS
    assert await cache.get("k", source) == "second"


async def test_serving_does_not_lengthen_an_entrys_life(hands: Hands, source: Source) -> None:
    cache = cached(hands)
    for _ in range(9):
        await cache.get("k", source)
        hands.now += CACHE_SECONDS / 4
    assert source.asked == 3


async def test_an_old_entry_is_never_served_when_the_look_up_fails(hands: Hands, source: Source) -> None:
    cache = cached(hands)
    await cache.get("k", source)
    hands.now += CACHE_SECONDS

    async def fail() -> str:
        raise StorageUnavailable

    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await cache.get("k", fail)


async def test_a_failure_is_not_cached(hands: Hands, source: Source) -> None:
    cache = cached(hands)

    async def fail() -> str:
        raise StorageUnavailable

    with pytest.raises(StorageUnavailable):
        await cache.get("k", fail)
    assert await cache.get("k", source) == "first"


async def test_the_age_counts_from_before_the_look_up(hands: Hands, source: Source) -> None:
    cache = cached(hands)

    async def slow() -> str:
        hands.now += 3
        return await source()

    await cache.get("k", slow)
    hands.now += CACHE_SECONDS - 3
    await cache.get("k", source)
    assert source.asked == 2


async def test_nothing_is_an_answer_too(hands: Hands) -> None:
    cache: BriefCache[str, None] = BriefCache(hands)
    asked = []

    async def nothing() -> None:
        asked.append(1)

    await cache.get("k", nothing)
    await cache.get("k", nothing)
    assert len(asked) == 1


async def test_keys_do_not_share_entries(hands: Hands) -> None:
    cache = cached(hands)

    def giving(value: str) -> Callable[[], Awaitable[str]]:
        async def give() -> str:
            return value

        return give

    assert [await cache.get(key, giving(key)) for key in ("a", "b", "a")] == ["a", "b", "a"]


async def test_the_oldest_entry_makes_room(hands: Hands, source: Source) -> None:
    cache = cached(hands)
    for number in range(CACHE_MAX + 1):
        await cache.get(str(number), source)
    assert source.asked == CACHE_MAX + 1
    await cache.get(str(CACHE_MAX), source)
    assert source.asked == CACHE_MAX + 1
    await cache.get("0", source)
    assert source.asked == CACHE_MAX + 2


async def test_a_look_up_that_began_earlier_never_makes_an_entry_live_longer(hands: Hands) -> None:
    """Two look-ups of one key overlap, and the older one ends last."""
    cache = cached(hands)
    go = asyncio.Event()

    async def late() -> str:
        await go.wait()
        return "older"

    async def prompt() -> str:
        return "newer"

    first = asyncio.ensure_future(cache.get("k", late))
    await asyncio.sleep(0)
    hands.now += 2
    await cache.get("k", prompt)
    go.set()
    await first
    hands.now += CACHE_SECONDS - 2
    assert await cache.get("k", prompt) == "newer"
