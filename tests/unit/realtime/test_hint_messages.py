"""Hints as messages between processes, and the bounded queue in front of them."""

import asyncio
from collections.abc import Awaitable, Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.memory import Position
from memlane.domain.stream import ChannelKey, Hint
from memlane.observability.metrics import REGISTRY
from memlane.realtime.redis_fanout import QUEUE_MAX, RedisPublisher, RedisSubscription, decode_hints, encode_hints
from memlane.usecases.ports import ChannelHead
from support.redis import redis_server

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_hints = st.builds(
    Hint,
    st.builds(ChannelKey, _texts, _texts),
    _texts,
    st.integers(0, 2**53 - 1),
    st.none() | st.dictionaries(_texts, _json, max_size=4),
    st.booleans(),
    st.booleans(),
    st.floats(0, 1e10),
)


@given(st.lists(_hints, max_size=5))
def test_hints_come_out_of_a_message_as_they_went_in(hints: list[Hint]) -> None:
    assert decode_hints(encode_hints(hints)) == hints


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_give_no_hints(message: bytes) -> None:
    assert isinstance(decode_hints(message), list)


@given(_json)
def test_json_that_is_no_message_gives_no_hints(value: object) -> None:
    assert decode_hints(orjson.dumps(value)) == []


_VALID = orjson.loads(encode_hints([Hint(ChannelKey("p", "c"), "e", 1, {"a": 1}, True, True, 1.0)]))[0]
_WRONG = {
    "p": [None, 1, [], {}],
    "c": [None, 1, [], {}],
    "e": [None, 1, [], {}],
    "s": [None, "1", 1.5, True, -1, 2**53],
    "f": [None, 1, "true"],
    "m": [None, 0, "false"],
    "t": [None, "1", True, []],
    "d": ["text", 1, [], True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in _WRONG.items() for value in values])
def test_a_hint_with_a_field_of_another_type_never_gets_as_far_as_the_hub(name: str, value: object) -> None:
    assert decode_hints(orjson.dumps([{**_VALID, name: value}])) == []


@pytest.mark.parametrize("name", sorted(_VALID))
def test_a_hint_without_one_of_its_fields_never_gets_as_far_as_the_hub(name: str) -> None:
    assert decode_hints(orjson.dumps([{key: value for key, value in _VALID.items() if key != name}])) == []


async def test_hints_that_wait_for_redis_are_bounded_and_the_oldest_go_and_are_counted() -> None:
    publisher = RedisPublisher("redis://127.0.0.1:1/0")
    dropped = _value("memlane_hints_dropped_total")
    heads = [ChannelHead(str(number), "user", Position("e", number), "code") for number in range(QUEUE_MAX + 25)]
    publisher.shown("p", heads)
    assert len(publisher._queue) == QUEUE_MAX
    assert publisher._queue[0].seq == 25
    assert _value("memlane_hints_dropped_total") - dropped == 25
    await publisher.aclose()


async def test_a_publisher_without_redis_keeps_trying_and_its_hints_wait_in_order() -> None:
    publisher = RedisPublisher("redis://127.0.0.1:1/0")
    dropped, retries = _value("memlane_hints_dropped_total"), _value("memlane_hint_retries_total")
    async with _running(publisher.run):
        for number in range(3):
            publisher.shown("p", [ChannelHead("c", "user", Position("e", number), "code")])
            await asyncio.sleep(0.3)
        assert [hint.seq for hint in publisher._queue] == [1, 2], "the first is being tried"
    assert _value("memlane_hints_dropped_total") == dropped
    assert _value("memlane_hint_retries_total") - retries >= 2
    await publisher.aclose()


async def test_hints_that_waited_for_a_redis_that_hung_arrive_in_order() -> None:
    async with redis_server() as redis:
        listens, done = asyncio.Event(), asyncio.Event()
        heard: list[int] = []

        def hear(hint: Hint) -> None:
            heard.append(hint.seq)
            if hint.seq == 449:
                done.set()

        publisher = RedisPublisher(redis.url)
        subscription = RedisSubscription(redis.url, hear, listens.set)
        try:
            async with asyncio.timeout(10), _running(publisher.run), _running(subscription.run):
                await listens.wait()
                redis.freeze()
                for number in range(450):
                    publisher.shown("p", [ChannelHead("c", "user", Position("e", number), "code")])
                await asyncio.sleep(1.3)
                redis.thaw()
                await done.wait()
        finally:
            await publisher.aclose()
            await subscription.aclose()
        # One may arrive twice: Redis took it, and the publisher did not hear so in time.
        assert list(dict.fromkeys(heard)) == list(range(450))


async def test_a_subscription_without_redis_is_not_healthy_and_goes_on_trying() -> None:
    subscription = RedisSubscription("redis://127.0.0.1:1/0", lambda _hint: None, lambda: None)
    broken = _value("memlane_hint_reconnects_total")
    async with _running(subscription.run), _running(subscription.run_probe):
        await asyncio.sleep(0.7)
        assert not subscription.healthy
    assert _value("memlane_hint_reconnects_total") - broken >= 2
    await subscription.aclose()


def _value(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


class _running:  # noqa: N801 - reads as a word in `async with _running(...)`
    def __init__(self, loop: Callable[[], Awaitable[None]]) -> None:
        self._loop = loop

    async def __aenter__(self) -> None:
        self._task = asyncio.ensure_future(self._loop())

    async def __aexit__(self, *_: object) -> None:
        assert not self._task.done(), "the loop goes on for ever"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
