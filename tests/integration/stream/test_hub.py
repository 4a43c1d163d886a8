"""Hints carry no truth: in whatever order they come, whether lost, doubled or unsound, the feed is right."""

import random
import time
from dataclasses import replace

import pytest

from integration.stream.house import Person, Stream, Watch
from memlane.domain.stream import Hint
from support.stream_client import opened

SWEEP = 2.0
"""Within which the sweep finds what a hint lost, in seconds (realtime.md)."""
MARGIN = 1.0


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
