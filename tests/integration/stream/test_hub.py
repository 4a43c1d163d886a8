"""Hints carry no truth: in whatever order they come, whether lost, doubled or unsound, the feed is right."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from integration.stream.house import Person, Stream, Watch
from memlane.domain.stream import ChannelKey, Hint
from memlane.realtime.feed import Resend
from memlane.usecases.ports import StreamStore
from support.stream_client import opened

SWEEP = 2.0
"""Within which the sweep finds what a hint lost, in seconds (realtime.md)."""
MARGIN = 1.0


@dataclass(slots=True)
class Held:
    """The table, but for one answer that is read and then held back."""

    store: StreamStore
    name: str
    read: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        return self._held(method) if name == self.name and not self.read.is_set() else method

    def _held(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any) -> Any:
            self.read.set()
            answer = await method(*arguments)
            await self.release.wait()
            return answer

        return call


@dataclass(slots=True)
class Broken:
    """The table, but for one answer that fails in a way nobody has thought of."""

    store: StreamStore
    failed: bool = False

    def __getattr__(self, name: str) -> Any:
        if name == "positions":
            return self._no_heads
        if name != "changes_since" or self.failed:
            return getattr(self.store, name)
        self.failed = True
        raise LookupError("a fault of ours")

    async def _no_heads(self, _: Sequence[ChannelKey]) -> dict[str, Any]:
        # The sweep would heal it as well.
        return {}


@pytest.mark.parametrize("seed", range(4))
async def test_hints_out_of_order_are_delivered_in_order_and_once(person: Person, stream: Stream, seed: int) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        rows = await channel.grow(20)
        hints = await channel.hints(1)
        random.Random(seed).shuffle(hints)  # noqa: S311 - the order is no secret
        for hint in hints:
            stream.hub.receive(hint)
        await client.has(21)
        await client.round_trip()
        assert client.seqs() == list(range(1, 22))
        assert [one["memoryId"] for one in client.events()[1:]] == [row[0] for row in rows]


async def test_a_hint_that_is_next_in_order_is_delivered_without_reading_the_table(
    person: Person, stream: Stream
) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        await channel.grow(1)
        (hint,) = await channel.hints(1)
        resyncs = [Watch("memlane_stream_resyncs_total", {"cause": cause}) for cause in ("gap", "sweep")]
        stream.hub.receive(hint)
        await client.has(2)
        assert [one.moved for one in resyncs] == [0, 0]


async def test_a_lost_hint_is_healed_by_the_sweep_within_2_s(person: Person) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        sweeps = Watch("memlane_stream_resyncs_total", {"cause": "sweep"})
        began = time.monotonic()
        await channel.grow(3)
        await client.has(4)
        assert time.monotonic() - began < SWEEP + MARGIN
        assert client.seqs() == [1, 2, 3, 4]
        assert sweeps.moved >= 1


async def test_a_hint_after_a_lost_one_brings_both_at_once(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        await channel.grow(5)
        *_lost, last = await channel.hints(1)
        began = time.monotonic()
        stream.hub.receive(last)
        await client.has(6)
        assert time.monotonic() - began < 1
        assert client.seqs() == [1, 2, 3, 4, 5, 6]


async def test_a_doubled_hint_is_dropped(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        await channel.grow(2)
        hints = await channel.hints(1)
        for hint in (*hints, *hints, hints[0], hints[1], hints[1]):
            stream.hub.receive(hint)
        await client.has(3)
        await client.round_trip()
        assert client.seqs() == [1, 2, 3]


async def test_a_hint_of_a_change_that_is_not_in_the_table_yet_loses_nothing(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        stream.hub.receive(Hint(channel.key, channel.epoch, 3))
        await client.silence(0.2)
        await channel.grow(2)
        await client.has(3)
        assert client.seqs() == [1, 2, 3]


async def test_an_unsound_payload_is_never_sent_and_its_row_is_read_from_the_table(
    person: Person, stream: Stream
) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        ((row, _),) = await channel.grow(1)
        (hint,) = await channel.hints(1)
        unsound = Watch("memlane_stream_unsound_total")
        payload = {name: value for name, value in (hint.payload or {}).items() if name != "memory"}
        stream.hub.receive(replace(hint, payload=payload))
        await client.has(2, seconds=1)
        assert unsound.moved == 1
        assert client.events()[1]["memoryId"] == row
        assert all("memory" in event for event in client.events())


async def test_a_row_that_is_unsound_in_the_table_is_left_out_and_the_next_is_sent(person: Person) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        rows = await channel.grow(2)
        await channel.deployment.execute("update memories set content = '' where id = $1::uuid", rows[0][0])
        await client.has(2)
        assert client.seqs()[-1] == 3
        assert client.closed_at is None


async def test_another_epoch_in_a_hint_closes_the_channels_sockets(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    other = person.other("u2")
    theirs = await other.tickets()
    async with person.listening() as client, opened(person.url, theirs.token) as bystander:
        await bystander.joined(theirs.topic)
        stream.hub.receive(Hint(channel.key, "restored", 1))
        assert await client.closed(1) == 1012
        assert bystander.closed_at is None


async def test_a_hint_for_a_channel_without_subscribers_is_nothing(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    assert not stream.hub.has_feed(channel.key)
    stream.hub.receive(Hint(channel.key, channel.epoch, 2, {"rubbish": 1}))
    assert not stream.hub.has_feed(channel.key)


async def test_after_lost_hints_every_feed_is_read_anew_at_once(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        await channel.grow(2)
        began = time.monotonic()
        stream.hub.distrust()
        await client.has(3)
        assert time.monotonic() - began < 1
        assert client.seqs() == [1, 2, 3]


async def test_what_was_read_for_a_resend_is_not_sent_to_a_socket_that_has_caught_up_meanwhile(
    person: Person, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = await person.save("Will be retired.")
    channel = await person.channel()
    hub = stream.hub
    async with person.listening() as stock:
        await stock.has(1)
        feed = hub._feeds[channel.key]
        (subscription,) = feed.live
        held = Held(hub._streams, "changes_since")
        monkeypatch.setattr(hub, "_streams", held)
        hub._enqueue(Resend(feed, 0))
        await held.read.wait()
        hub._fall_behind(feed, subscription)
        await person.retire(saved["id"])
        hub.enqueue(subscription)
        await stock.has_seq(2)
        held.release.set()
        await stock.silence(0.2)
        assert stock.rows() == {}
        assert subscription in feed.live


async def test_a_socket_that_falls_behind_during_a_resend_is_sent_those_rows_all_the_same(
    person: Person, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person.save("May have been overwritten.")
    channel = await person.channel()
    hub = stream.hub
    async with person.listening() as stock:
        await stock.has(1)
        feed = hub._feeds[channel.key]
        (subscription,) = feed.live
        held = Held(hub._streams, "changes_since")
        monkeypatch.setattr(hub, "_streams", held)
        before = stock.seqs().count(1)
        hub._enqueue(Resend(feed, 0))
        await held.read.wait()
        hub._fall_behind(feed, subscription)
        held.release.set()
        await stock.silence(0.1)
        hub.enqueue(subscription)
        await stock.until(lambda: stock.seqs().count(1) > before, "the row again", 2)


async def test_a_row_that_comes_while_a_long_way_is_caught_up_is_sent(
    person: Person, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person.save("First.")
    channel = await person.channel()
    rows = await channel.grow(2300)
    tickets = await person.tickets()
    held = Held(stream.hub._streams, "visible_ids")
    monkeypatch.setattr(stream.hub, "_streams", held)
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, {"fence": False})
        await held.read.wait()
        await asyncio.sleep(0.3)
        saved = await person.save("Came after the list was looked up.")
        held.release.set()
        await client.has_seq(rows[-1][1] + 1)
        assert client.rows()[saved["id"]] == "Came after the list was looked up."


async def test_a_fault_of_ours_in_a_worker_forgets_no_socket(
    person: Person, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person.save("First.")
    channel = await person.channel()
    async with person.listening(fence=False) as client:
        await client.has(1)
        await channel.grow(1)
        broken = Broken(stream.hub._streams)
        monkeypatch.setattr(stream.hub, "_streams", broken)
        stream.hub.receive(Hint(channel.key, channel.epoch, 2))
        await client.has_seq(2, seconds=3)
        assert broken.failed
