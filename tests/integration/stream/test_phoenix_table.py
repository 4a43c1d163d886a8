"""The contract's Phoenix table, row by row, on a real socket."""

import asyncio
import json
import time

import pytest
from websockets.frames import Frame, Opcode

from integration.stream.house import Person, Stream, database_of, serving
from memlane.usecases.ports import Embedder
from support.service import Deployment
from support.stream_client import opened, refused

UNKNOWN = "user_meta:memories:nobody-has-this-code"


async def test_a_join_is_answered_ok_with_the_bytes_of_the_contract(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.send_text(f'["5","5","{tickets.topic}","phx_join",{{}}]')
        await client.reply("5")
        assert client.raw == [f'["5","5","{tickets.topic}","phx_reply",{{"status":"ok","response":{{}}}}]']


async def test_a_heartbeat_is_answered_with_the_bytes_of_the_contract(person: Person) -> None:
    async with opened(person.url, (await person.tickets()).token) as client:
        await client.send_text('[null,"6","phoenix","heartbeat",{}]')
        await client.reply("6")
        assert client.raw == ['[null,"6","phoenix","phx_reply",{"status":"ok","response":{}}]']


@pytest.mark.parametrize("ref", ["0", "007", "é\u0000\U0001f642", 'a"b\\c', "x" * 255])
async def test_refs_come_back_as_they_were_sent(person: Person, ref: str) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, ref=ref)
        assert client.frames[0].join_ref == client.frames[0].ref == ref


@pytest.mark.parametrize("payload", ["text", 1, ["last"], True])
async def test_a_join_refused_for_good_is_told_why(person: Person, payload: object) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        reply = await client.join(tickets.topic, payload, ref="3")
        assert reply.join_ref == "3"
        assert reply.payload == {"status": "error", "response": {"reason": "join payload must be an object"}}
        await client.joined(tickets.topic)


@pytest.mark.parametrize(
    "topic", [UNKNOWN, "user_meta:memories:", "room:lobby", "", "phoenix", "user_meta:memories:a:b", "é" * 500]
)
async def test_an_unknown_topic_is_unmatched_with_a_null_join_ref(person: Person, topic: str) -> None:
    async with opened(person.url, (await person.tickets()).token) as client:
        reply = await client.join(topic, ref="9")
        assert (reply.join_ref, reply.topic) == (None, topic)
        assert reply.payload == {"status": "error", "response": {"reason": "unmatched topic"}}


async def test_an_event_on_a_topic_that_is_not_joined_is_unmatched_with_a_null_join_ref(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.send("1", "2", tickets.topic, "anything")
        reply = await client.reply("2")
        assert reply.join_ref is None
        assert reply.payload == {"status": "error", "response": {"reason": "unmatched topic"}}


async def test_an_unknown_event_on_a_joined_topic_is_refused_and_the_join_stands(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, ref="1")
        await client.send("1", "2", tickets.topic, "shout")
        assert (await client.reply("2")).payload["status"] == "error"
        await person.save("The gate code is on the blue card.")
        await client.has(1)


async def test_of_two_joins_of_a_topic_the_new_one_wins_and_the_close_carries_the_old_join_ref(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, ref="1")
        await client.joined(tickets.topic, ref="2")
        closes = [frame for frame in client.frames if frame.event == "phx_close"]
        assert [(frame.join_ref, frame.ref, frame.topic) for frame in closes] == [("1", "1", tickets.topic)]
        await person.save("The gate code is on the blue card.")
        await client.has(1)
        await client.round_trip()
        assert client.seqs() == [1], "the old join gets nothing more"


async def test_a_leave_is_answered_ok_then_closed_with_its_join_ref_and_then_silent(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, ref="4")
        await client.send("4", "5", tickets.topic, "phx_leave")
        await client.until(lambda: len(client.frames) >= 3, "reply and close")
        assert [(one.join_ref, one.ref, one.event) for one in client.frames[1:]] == [
            ("4", "5", "phx_reply"),
            ("4", "4", "phx_close"),
        ]
        assert client.frames[1].payload == {"status": "ok", "response": {}}
        await person.save("The gate code is on the blue card.")
        await client.round_trip()
        assert client.events() == []


async def test_leaving_what_was_not_joined_is_ok(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.send("4", "5", tickets.topic, "phx_leave")
        assert (await client.reply("5")).payload == {"status": "ok", "response": {}}


async def test_what_carries_a_stale_join_ref_is_ignored(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic, ref="1")
        await client.joined(tickets.topic, ref="2")
        before = len(client.frames)
        await client.send("1", "7", tickets.topic, "phx_leave")
        await client.round_trip()
        assert len(client.frames) == before + 1, "only the heartbeat is answered"
        await person.save("The gate code is on the blue card.")
        await client.has(1)


async def test_a_hundred_topics_fit_on_a_socket_and_one_more_is_too_many(
    person: Person, lone_deployment: Deployment
) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        # No join is decided while the table is locked: what is joining counts too.
        held = await database_of(lone_deployment)
        try:
            async with held.transaction():
                await held.execute("lock table channels in access exclusive mode")
                for number in range(100):
                    await client.send(f"j{number}", f"j{number}", f"{UNKNOWN}{number}", "phx_join")
                reply = await client.join(tickets.topic, ref="101")
        finally:
            await held.close()
        assert reply.join_ref == "101"
        assert reply.payload == {"status": "error", "response": {"reason": "too many channels joined"}}
        for number in range(100):
            assert (await client.reply(f"j{number}")).payload["response"] == {"reason": "unmatched topic"}
        await client.joined(tickets.topic)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", 1002),
        ("rubbish", 1002),
        ("{}", 1002),
        ('["1","1","t","phx_join"]', 1002),
        ('["1",1,"t","phx_join",{}]', 1002),
        ('["1","1",null,"phx_join",{}]', 1002),
        (json.dumps(["1", "x" * 256, "t", "e", {}]), 1002),
        ("[" * 5000 + "]" * 5000, 1002),
        (b'["1","1","t","phx_join",{}]', 1003),
        (json.dumps(["1", "1", "t", "e", {"x": "y" * 64 * 1024}]), 1009),
        (json.dumps(["1", "1", "t", "e", {"x": "y" * 4_000_000}]), 1009),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_a_bad_frame_closes_its_own_socket_and_harms_nothing_else(
    person: Person, frame: str | bytes, code: int
) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as bystander, opened(person.url, tickets.token) as client:
        await bystander.joined(tickets.topic)
        await client.joined(tickets.topic)
        await client.send_text(frame)
        assert await client.closed() == code
        await person.save("The gate code is on the blue card.")
        await bystander.has(1)


async def test_a_frame_of_64_kib_is_taken(person: Person) -> None:
    tickets = await person.tickets()
    frame = json.dumps(["1", "1", tickets.topic, "phx_join", {"x": ""}])
    async with opened(person.url, tickets.token) as client:
        await client.send_text(frame.replace('""', f'"{"y" * (64 * 1024 - len(frame))}"'))
        assert (await client.reply("1")).payload["status"] == "ok"


async def test_a_message_in_fragments_counts_as_a_whole(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.socket.send(iter(['["1","1","', tickets.topic, '","phx_join",{}]']))
        assert (await client.reply("1")).payload["status"] == "ok"
        await client.socket.send(iter(["x" * 40_000, "y" * 40_000]))
        assert await client.closed() == 1009


async def test_text_that_is_not_utf_8_closes_the_socket(person: Person) -> None:
    async with opened(person.url, (await person.tickets()).token) as client:
        client.socket.transport.write(Frame(Opcode.TEXT, b"\xff\xfe").serialize(mask=True))
        assert await client.closed() == 1002


async def test_a_ping_is_answered(person: Person) -> None:
    async with opened(person.url, (await person.tickets()).token) as client:
        async with asyncio.timeout(2):
            await (await client.socket.ping())


async def test_nothing_from_the_client_for_60_s_closes_with_1001(
    lone_deployment: Deployment, embedder: Embedder
) -> None:
    async with serving(lone_deployment, embedder) as stream:
        person = await stream.person()
        tickets = await person.tickets()
        sessions = stream.process.sessions
        assert sessions is not None
        async with opened(person.url, tickets.token) as client:
            await client.joined(tickets.topic)
            sessions._monotonic = lambda: time.monotonic() + 55
            await asyncio.sleep(2.2)
            assert client.closed_at is None, "55 s of silence are allowed"
            sessions._monotonic = lambda: time.monotonic() + 60
            assert await client.closed(3) == 1001


@pytest.mark.parametrize("vsn", [None, "", "1.0.0", "3.0.0", "2", "2.0", "2.0.0-rc", "02.0.0", "2.0.0.0"])
async def test_another_version_of_the_serializer_is_refused_with_403(person: Person, vsn: str | None) -> None:
    refusal = await refused(person.url, (await person.tickets()).token, vsn=vsn)
    assert refusal.status == 403
    assert refusal.seconds < 1


@pytest.mark.parametrize("vsn", ["2.0.0", "2.7.13"])
async def test_every_version_that_matches_two_is_served(person: Person, vsn: str) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token, vsn=vsn) as client:
        await client.joined(tickets.topic)


async def test_the_origin_is_checked_only_when_it_is_sent(lone_deployment: Deployment, embedder: Embedder) -> None:
    async with serving(lone_deployment, embedder, allowed_origins=frozenset({"https://app.example"})) as stream:
        person = await stream.person()
        tickets = await person.tickets()
        refusal = await refused(person.url, tickets.token, headers={"Origin": "https://evil.example"})
        assert refusal.status == 403
        assert refusal.seconds < 1
        for headers in ({}, {"Origin": "https://app.example"}):
            async with opened(person.url, tickets.token, headers=headers) as client:
                await client.joined(tickets.topic)


async def test_any_origin_is_served_unless_origins_are_configured(stream: Stream) -> None:
    person = await stream.person()
    tickets = await person.tickets()
    async with opened(person.url, tickets.token, headers={"Origin": "https://anywhere.example"}) as client:
        await client.joined(tickets.topic)


async def test_one_token_joins_several_of_its_own_topics_on_one_socket(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.project_token) as client:
        await client.joined(tickets.topic)
        await client.joined(tickets.project_topic)
        await person.save("Prefers tea.", scope="user")
        await person.save("Orders close at noon.", scope="project")
        await client.has(1, tickets.topic)
        await client.has(1, tickets.project_topic)
