"""Positions: whatever a client missed between its list and its join, or while it was away, it gets."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from integration.stream.house import Channel, Person, Stream, Watch, resigned
from support.stream_client import opened


async def test_a_change_between_the_list_and_the_join_is_seen(person: Person) -> None:
    listed = await person.list()
    tickets = await person.tickets()
    assert listed["memories"] == []
    saved = await person.save("Came in between.")
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        event = (await client.has(1))[0]
        assert (event["memoryId"], event["seq"]) == (saved["id"], 1)


async def test_a_change_before_the_token_and_after_the_list_is_seen(person: Person) -> None:
    await person.list()
    saved = await person.save("Came while the token was asked for.")
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        assert (await client.has(1))[0]["memoryId"] == saved["id"]


async def test_what_changed_while_the_socket_was_away_is_seen_with_the_same_token(person: Person) -> None:
    kept = await person.save("Stays as it is.")
    gone = await person.save("Will be retired.")
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        await client.has(2)
        await client.cut()
    await person.retire(gone["id"])
    new = await person.save("Came while away.")
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, {"fence": False})
        await client.has_seq(4)
        assert client.rows() == {kept["id"]: "Stays as it is.", new["id"]: "Came while away."}
        assert [one["operation"] for one in client.events() if one["memoryId"] == gone["id"]] == ["invalidated"]


async def test_a_join_is_answered_before_anything_is_sent_and_what_is_sent_grows_in_seq(person: Person) -> None:
    await person.save("First.")
    await (await person.channel()).grow(500)
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, {"fence": False})
        assert client.frames[0].event == "phx_reply"
        await client.has(501)
        assert client.seqs() == list(range(1, 502))


async def test_writes_that_race_with_the_join_are_all_seen(person: Person) -> None:
    await person.save("First.")
    await (await person.channel()).grow(300)
    tickets = await person.tickets()

    async def write() -> None:
        for number in range(10):
            await person.save(f"Row {number} of the race has {number} wheels.")

    writing = asyncio.get_running_loop().create_task(write())
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        await writing
        await client.has_seq(311)
        assert client.first_seqs() == list(range(1, 312))


async def test_the_tokens_cursor_lies_60_s_before_its_making(person: Person) -> None:
    await person.save("First.")
    channel = await person.channel()
    await channel.grow(5, "old", seconds_old=3600)
    await channel.deployment.execute(
        "update memories set updated_at = now() - interval '1 hour' where channel_id = $1", channel.id
    )
    recent = await channel.grow(3, "recent", seconds_old=45)
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, {"fence": False})
        await client.has(3)
        await client.round_trip()
        assert [one["memoryId"] for one in client.events()] == [row[0] for row in recent]


async def test_a_topic_that_is_not_the_tokens_own_is_read_from_60_s_before_its_making_too(person: Person) -> None:
    await person.save("First of the project.", scope="project")
    channel = await person.channel("project")
    await channel.deployment.execute(
        "update memories set updated_at = now() - interval '1 hour' where channel_id = $1", channel.id
    )
    ((recent, _),) = await channel.grow(1, "recent", seconds_old=45)
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        await client.joined(tickets.project_topic, {"fence": False})
        await client.has(1, tickets.project_topic)
        missed = await person.save("Came after the join.", scope="project")
        await client.has(2, tickets.project_topic)
        assert [one["memoryId"] for one in client.events(tickets.project_topic)] == [recent, missed["id"]]


async def test_a_row_that_changed_twice_leaves_a_hole_that_holds_nothing_up(person: Person) -> None:
    saved = await person.save("First wording.")
    channel = await person.channel()
    await channel.touch(saved["id"], "Second wording.")
    head = await channel.touch(saved["id"], "Third wording.")
    # The head itself is a hole: a last change that was taken back by a purge, for example.
    await channel.deployment.execute("update channels set seq = seq + 1 where id = $1", channel.id)
    async with person.listening() as client:
        await client.has_seq(head)
        assert client.rows() == {saved["id"]: "Third wording."}
        gaps = Watch("memlane_stream_resyncs_total", {"cause": "gap"})
        new = await person.save("The next one.")
        assert (await client.has_seq(head + 2))["memoryId"] == new["id"]
        assert gaps.moved == 0, "the next seq follows on the head that was read"


def _behind(channel: Channel) -> Any:
    return {"epoch": channel.epoch, "seq": channel.seq - 1}


@pytest.mark.parametrize(
    ("last", "recovered"),
    [
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": channel.seq}, True, id="at the head"),
        pytest.param(_behind, True, id="one behind"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": 0}, True, id="at the start"),
        pytest.param(lambda channel: {"epoch": "other", "seq": channel.seq}, False, id="another epoch"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": channel.seq + 1}, False, id="above the head"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": 2**60}, False, id="beyond JavaScript"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": -1}, False, id="negative"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": True}, False, id="a boolean"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": "1"}, False, id="a text"),
        pytest.param(lambda channel: {"epoch": channel.epoch, "seq": 1.0}, False, id="a fraction"),
        pytest.param(lambda channel: {"epoch": channel.epoch}, False, id="no seq"),
        pytest.param(lambda _channel: {"seq": 1}, False, id="no epoch"),
        pytest.param(lambda _channel: {"epoch": 7, "seq": 1}, False, id="an epoch that is no text"),
        pytest.param(lambda _channel: None, False, id="null"),
        pytest.param(lambda _channel: "rubbish", False, id="rubbish"),
        pytest.param(lambda _channel: [1, 2], False, id="a list"),
    ],
)
async def test_our_own_client_is_told_whether_its_position_was_recovered(
    person: Person, last: Callable[[Channel], object], recovered: bool
) -> None:
    for text in ("One.", "Two.", "Three."):
        await person.save(text)
    channel = await person.channel()
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        given: Any = last(channel)
        response = await client.joined(tickets.topic, {"last": given, "fence": False})
        start = given["seq"] if recovered else channel.seq
        assert response == {"epoch": channel.epoch, "seq": start, "recovered": recovered}
        await client.has(3 - start) if start < 3 else None
        await client.round_trip()
        assert client.seqs() == list(range(start + 1, 4))
        await person.save("Four.")
        await client.has_seq(4)


async def test_the_stock_clients_join_is_answered_with_an_empty_response(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        assert await client.joined(tickets.topic, {}) == {}


async def test_over_2000_changes_bring_what_a_list_shows_and_every_retirement(person: Person) -> None:
    await person.save("First.")
    channel = await person.channel()
    gone = await channel.grow(150, "gone", retired=True)
    rows = await channel.grow(2300)
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, {"fence": False})
        await client.has_seq(rows[-1][1])
        listed = {row["id"]: row["content"] for row in (await person.list())["memories"]}
        assert len(listed) == 2000
        assert client.rows() == listed
        retired = [one["memoryId"] for one in client.events() if one["operation"] == "invalidated"]
        assert retired == [row[0] for row in gone]
        assert client.seqs() == sorted(client.seqs())
        saved = await person.save("After the long way.")
        await client.has_seq(rows[-1][1] + 1)
        assert client.rows()[saved["id"]] == "After the long way."


async def test_a_cursor_above_the_head_starts_at_the_head(person: Person) -> None:
    await person.save("One.")
    tickets = await person.tickets()
    async with opened(person.url, resigned(tickets.token, cursor=10**9)) as client:
        await client.joined(tickets.topic, {"fence": False})
        await person.save("Two.")
        await client.has(1)
        assert client.seqs() == [2]


def has_listened_for_long(stream: Stream) -> None:
    """For the first 15 s of a process an answer may be under way that it knows nothing of; make that over."""
    stream.hub.trust.distrust_until = 0.0


async def test_a_late_list_may_have_overwritten_newer_rows_so_they_are_sent_again(
    person: Person, stream: Stream
) -> None:
    has_listened_for_long(stream)
    await person.save("Before the list.")
    async with person.listening() as stock:
        await person.list()
        newer = await person.save("After the list was read.")
        await stock.has_seq(2)
        await stock.until(lambda: stock.seqs().count(2) >= 4, "resends at +0.1, +0.7 and +2 s", 4)
        again = [one for one in stock.events() if one["seq"] == 2]
        assert {one["operation"] for one in again[1:]} == {"updated"}
        assert {one["memory"]["content"] for one in again} == {"After the list was read."}
        assert {one["memoryId"] for one in again} == {newer["id"]}
        assert stock.seqs().count(1) == 1, "what the list showed is not sent again"


async def test_a_late_write_answer_does_not_bring_a_retired_row_back(person: Person) -> None:
    async with person.listening() as stock:
        saved = await person.save("Short-lived.")
        await person.retire(saved["id"])
        await stock.has_seq(2)
        await stock.until(lambda: stock.seqs().count(2) >= 3, "the retirement again", 4)
        assert {one["operation"] for one in stock.events() if one["seq"] == 2} == {"invalidated"}


async def test_nothing_is_sent_again_when_the_channel_does_not_move(person: Person, stream: Stream) -> None:
    has_listened_for_long(stream)
    await person.save("One.")
    async with person.listening() as stock:
        await stock.has(1)
        await person.list()
        await person.list()
        assert await stock.silence(3) == []


async def test_a_young_process_sends_again_what_changed_before_it_listened(person: Person, stream: Stream) -> None:
    await person.save("Saved while a list was under way that this process knows nothing of.")
    stream.hub.trust.distrust_until = time.monotonic() + 3
    async with person.listening(fence=False) as own, person.listening() as stock:
        await stock.until(lambda: stock.seqs().count(1) >= 3, "resends", 4)
        await own.round_trip()
        assert own.seqs() == [1]
    has_listened_for_long(stream)


async def test_a_client_that_asks_for_no_fence_gets_nothing_twice(person: Person) -> None:
    await person.save("Before the list.")
    async with person.listening(fence=False) as own, person.listening() as stock:
        await person.list()
        await person.save("After the list was read.")
        await stock.until(lambda: stock.seqs().count(2) >= 3, "resends to the stock client", 4)
        await own.round_trip()
        assert own.seqs() == [1, 2]
