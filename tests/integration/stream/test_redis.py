"""Several processes with Redis between them: hints cross it, and whatever it loses is late and not lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest_asyncio
from redis.asyncio import Redis

from integration.stream.house import Person, Stream, Tickets, Watch, eventually, serving
from memlane.usecases.ports import Embedder
from support.redis import RedisServer, redis_server
from support.service import ApiProcess, Deployment, api_process, free_port
from support.stream_client import StreamClient, opened, refused

LATE = 2.0
"""Longest delay of a change while Redis is away (issue 3), in seconds."""
MARGIN = 1.5
PROMPT = 1.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Two APIs in this process, two gateways as processes of their own, and Redis."""

    redis: RedisServer
    apis: tuple[Stream, Stream]
    gateways: tuple[ApiProcess, ApiProcess]
    metrics_urls: tuple[str, str]

    async def person(self) -> Person:
        return await self.apis[0].person()

    def other_api(self, person: Person) -> Person:
        """The same person, who writes at the other API."""
        return Person(self.apis[1].service, person.slug, person.key, person.user)

    @asynccontextmanager
    async def listening(self, tickets: Tickets, **payload: object) -> AsyncIterator[list[StreamClient]]:
        """A socket on each gateway that has joined the user's topic."""
        async with AsyncExitStack() as sockets:
            clients = [
                await sockets.enter_async_context(opened(gateway.url, tickets.token)) for gateway in self.gateways
            ]
            for client in clients:
                await client.joined(tickets.topic, payload)
            yield clients

    async def is_ready(self, status: int, seconds: float) -> None:
        """Wait until `/api/ready` of both gateways answers so."""
        async with httpx.AsyncClient(timeout=5) as http:

            async def all_answer() -> bool:
                answers = [await http.get(f"{gateway.url}/api/ready") for gateway in self.gateways]
                return all(answer.status_code == status for answer in answers)

            await eventually(all_answer, f"/api/ready answers {status}", seconds)

    async def metric(self, gateway: int, name: str) -> float:
        """The sum of a metric's samples in a gateway."""
        async with httpx.AsyncClient(timeout=5) as http:
            text = (await http.get(self.metrics_urls[gateway])).text
        lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        assert lines, f"{name} is not among the metrics"
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(lone_deployment: Deployment, embedder: Embedder) -> AsyncIterator[Fleet]:
    """Shared by the tests of this module; each leaves Redis running."""
    async with redis_server() as redis, AsyncExitStack() as parts:
        ports = free_port(), free_port()
        environments = [
            lone_deployment.environment(REDIS_URL=redis.url, MEMLANE_METRICS_PORT=str(port)) for port in ports
        ]
        starting = [parts.enter_async_context(api_process(environment, role="gateway")) for environment in environments]
        first, second = [await one for one in starting]
        apis = [
            await parts.enter_async_context(serving(lone_deployment, embedder, redis_url=redis.url)) for _ in range(2)
        ]
        urls = [f"http://127.0.0.1:{port}/metrics" for port in ports]
        made = Fleet(redis, (apis[0], apis[1]), (first, second), (urls[0], urls[1]))
        await made.is_ready(200, 15)
        yield made


async def test_what_any_api_writes_reaches_every_gateway_at_once_and_in_order(fleet: Fleet) -> None:
    person = await fleet.person()
    again = fleet.other_api(person)
    await person.save("First.")
    async with fleet.listening(await person.tickets(), fence=False) as clients:
        for client in clients:
            await client.has(1)
        for number in range(10):
            writer = again if number % 2 else person
            saved = await writer.save(f"Drawer {number} holds {number + 11} pens.")
            for client in clients:
                await client.has_seq(saved["seq"], seconds=PROMPT)
        for client in clients:
            assert client.seqs() == list(range(1, 12))


async def test_writers_that_race_at_two_apis_are_delivered_dense_and_in_order(fleet: Fleet) -> None:
    person = await fleet.person()
    again = fleet.other_api(person)
    async with fleet.listening(await person.tickets()) as clients:
        await asyncio.gather(
            *(
                writer.save(f"Bin {number} of {name} holds {number + 5} bolts.")
                for number in range(15)
                for name, writer in (("hall", person), ("yard", again))
            )
        )
        for client in clients:
            await client.has_seq(30, seconds=LATE + MARGIN)
            assert client.first_seqs() == list(range(1, 31))
        assert clients[0].rows() == clients[1].rows()


async def test_a_list_at_one_api_is_a_fence_at_every_gateway(fleet: Fleet) -> None:
    person = await fleet.person()
    await person.save("Before the list.")
    # The first fence of the save itself is over after 15 s; what it covers is the same row.
    async with fleet.listening(await person.tickets()) as clients:
        await fleet.other_api(person).list()
        saved = await person.save("After the list was read.")
        for client in clients:
            await client.until(lambda client=client: client.seqs().count(saved["seq"]) >= 3, "the row is sent again", 4)


async def test_while_redis_is_away_for_5_s_changes_are_late_and_not_lost_and_ready_is_red(fleet: Fleet) -> None:
    person = await fleet.person()
    await person.save("First.")
    async with fleet.listening(await person.tickets()) as clients:
        await fleet.redis.stop()
        stopped = time.monotonic()
        try:
            for number in range(3):
                began = time.monotonic()
                saved = await person.save(f"Crate {number} holds {number + 2} lamps.")
                assert time.monotonic() - began < PROMPT, "no write waits for Redis"
                for client in clients:
                    await client.has_seq(saved["seq"], seconds=LATE + MARGIN)
            await fleet.is_ready(503, 3)
            async with httpx.AsyncClient() as http:
                for gateway in fleet.gateways:
                    assert "hints" in (await http.get(f"{gateway.url}/api/ready")).json()["checks"]
                    assert (await http.get(f"{gateway.url}/api/accepting")).status_code == 200
                    assert (await http.get(f"{gateway.url}/api/health")).status_code == 200
            await asyncio.sleep(max(0.0, 5 - (time.monotonic() - stopped)))
        finally:
            await fleet.redis.start()
        await fleet.is_ready(200, 5)
        saved = await person.save("After the outage.")
        for client in clients:
            await client.has_seq(saved["seq"], seconds=PROMPT)
            assert client.first_seqs() == list(range(1, saved["seq"] + 1))
            assert client.closed_at is None


async def test_while_redis_is_away_every_change_counts_as_fenced(fleet: Fleet) -> None:
    person = await fleet.person()
    await person.save("First.")
    async with fleet.listening(await person.tickets()) as clients:
        await fleet.redis.stop()
        try:
            await asyncio.sleep(0.5)
            # The list's fence does not get through.
            await person.list()
            saved = await person.save("Came while fences were lost.")
            for client in clients:
                await client.until(
                    lambda client=client: client.seqs().count(saved["seq"]) >= 2, "the row is sent again", 6
                )
        finally:
            await fleet.redis.start()
        await fleet.is_ready(200, 5)


async def test_a_killed_subscription_is_noticed_opened_anew_and_nothing_is_lost(fleet: Fleet) -> None:
    person = await fleet.person()
    await person.save("First.")
    before = await fleet.metric(0, "memlane_hint_reconnects_total")
    async with fleet.listening(await person.tickets()) as clients:
        for round_number in range(3):
            assert await fleet.redis.kill_clients("pubsub") >= 2
            saved = await person.save(f"Written into the gap, round {round_number}.")
            for client in clients:
                await client.has_seq(saved["seq"], seconds=LATE + MARGIN)
        for client in clients:
            assert client.first_seqs() == [1, 2, 3, 4]
    assert await fleet.metric(0, "memlane_hint_reconnects_total") > before
    await fleet.is_ready(200, 5)


async def test_a_redis_that_hangs_is_like_one_that_is_away(fleet: Fleet) -> None:
    person = await fleet.person()
    await person.save("First.")
    async with fleet.listening(await person.tickets()) as clients:
        fleet.redis.freeze()
        try:
            saved = await person.save("Written while Redis hangs.")
            for client in clients:
                await client.has_seq(saved["seq"], seconds=LATE + MARGIN)
            await fleet.is_ready(503, 4)
        finally:
            fleet.redis.thaw()
        await fleet.is_ready(200, 6)
        saved = await person.save("Written afterwards.")
        for client in clients:
            await client.has_seq(saved["seq"], seconds=PROMPT + MARGIN)
            assert client.first_seqs() == [1, 2, 3]


async def test_a_client_of_a_killed_gateway_goes_on_at_another_with_the_same_token(
    fleet: Fleet, lone_deployment: Deployment
) -> None:
    person = await fleet.person()
    tickets = await person.tickets()
    async with api_process(lone_deployment.environment(REDIS_URL=fleet.redis.url), role="gateway") as doomed:
        async with opened(doomed.url, tickets.token) as client:
            await client.joined(tickets.topic)
            await person.save("Before the kill.")
            await client.has(1)
            doomed.kill()
            assert await client.closed() == 1006
        await person.save("After the kill.")
        async with opened(fleet.gateways[0].url, tickets.token) as client:
            await client.joined(tickets.topic)
            await client.has_seq(2)
            assert sorted(client.rows().values()) == ["After the kill.", "Before the kill."]


async def test_rubbish_on_the_hints_channel_harms_nothing(fleet: Fleet) -> None:
    person = await fleet.person()
    async with fleet.listening(await person.tickets()) as clients:
        redis = Redis.from_url(fleet.redis.url)
        for message in (b"", b"\xff", b"{}", b"[1]", b'[{"p":[]}]', b'[{"p":[],"c":{},"e":1,"s":"x","d":3,"f":0}]'):
            await redis.publish("memlane:hints", message)
        await redis.aclose()
        saved = await person.save("After the rubbish.")
        for client in clients:
            await client.has_seq(saved["seq"], seconds=PROMPT)
    await fleet.is_ready(200, 3)


async def test_nothing_about_a_refused_token_is_in_a_log_line_but_the_reason(fleet: Fleet) -> None:
    person = await fleet.person()
    tickets = await person.tickets()
    header, payload, signature = tickets.token.split(".")
    gateway = fleet.gateways[0]
    attacks = [
        f"{header}.{payload}.{signature[::-1]}",
        f"{header}.{payload}.",
        f"{header}.{payload[::-1]}.{signature}",
        f"{header}.{payload}",
    ]
    async with opened(gateway.url, tickets.token) as client:
        await client.joined(tickets.topic)
        await client.send_text(f'["1","1","{tickets.topic}","phx_join"]')
        assert await client.closed() == 1002
    for attack in attacks:
        assert (await refused(gateway.url, attack)).status == 403
    assert (await refused(gateway.url, tickets.token, vsn="1.0.0")).status == 403
    await asyncio.gather(*(refused(gateway.url, attacks[0]) for _ in range(50)))
    async with httpx.AsyncClient() as http:
        await http.get(f"{gateway.url}/client/websocket", params={"join_token": tickets.token, "vsn": "2.0.0"})
        await http.get(f"{gateway.url}/nowhere", params={"join_token": tickets.token})
    log = gateway.log
    assert '"reason":"token_bad_signature"' in log
    assert '"reason":"token_malformed"' in log
    assert '"reason":"vsn"' in log
    pieces = [header, payload, signature, signature[::-1], payload[::-1], tickets.topic.rpartition(":")[2]]
    for piece in pieces:
        for start in range(0, len(piece) - 12, 12):
            assert piece[start : start + 12] not in log
    assert "join_token" not in log
    assert "Traceback" not in log


async def test_every_metric_of_the_stream_exists_in_a_gateway_and_moves(fleet: Fleet) -> None:
    person = await fleet.person()
    moving = (
        "memlane_stream_sockets",
        "memlane_stream_channels",
        "memlane_stream_events_total",
        "memlane_stream_delivery_seconds_count",
        "memlane_hint_lag_seconds_count",
        "memlane_stream_resent_total",
    )
    before = {name: await fleet.metric(0, name) for name in moving}
    tickets = await person.tickets()
    async with fleet.listening(tickets) as clients:
        await person.list()
        saved = await person.save("Moves the metrics.")
        await clients[0].until(lambda: clients[0].seqs().count(saved["seq"]) >= 2, "sent again", 4)
        after = {name: await fleet.metric(0, name) for name in moving}
        assert {name for name in moving if after[name] <= before[name]} == set()
        assert after["memlane_stream_sockets"] == before["memlane_stream_sockets"] + 1
        assert after["memlane_stream_channels"] == before["memlane_stream_channels"] + 1
        sweeps = await fleet.metric(0, "memlane_stream_resyncs_total")
        await (await person.channel()).grow(1)
        await clients[0].has_seq(saved["seq"] + 1, seconds=LATE + MARGIN)
        assert await fleet.metric(0, "memlane_stream_resyncs_total") > sweeps
    for name in (
        "memlane_stream_held_upgrades",
        "memlane_stream_queue_overflows_total",
        "memlane_stream_refusals_total",
        "memlane_hints_dropped_total",
        "memlane_hint_reconnects_total",
        "memlane_stream_unsound_total",
        "memlane_task_up",
    ):
        await fleet.metric(0, name)

    async def sockets_are_as_before() -> bool:
        return await fleet.metric(0, "memlane_stream_sockets") == before["memlane_stream_sockets"]

    await eventually(sockets_are_as_before, "the gauge falls with the sockets")


async def test_hints_that_redis_does_not_take_are_counted_and_wait_for_it(fleet: Fleet) -> None:
    person = await fleet.person()
    retries, dropped = Watch("memlane_hint_retries_total"), Watch("memlane_hints_dropped_total")
    await fleet.redis.stop()
    try:
        await person.save("Its hint waits.")
        await eventually(lambda: retries.moved >= 2, "the hint is tried again")
        assert dropped.moved == 0
    finally:
        await fleet.redis.start()
    await fleet.is_ready(200, 5)
