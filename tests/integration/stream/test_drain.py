"""SIGTERM: first the load balancer is told, then the sockets are closed in batches, then the process ends."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from uuid import uuid4

import httpx
import pytest_asyncio

from integration.stream.house import Person, eventually, resigned, serving
from memlane.usecases.ports import Embedder
from support.redis import RedisServer, redis_server
from support.service import ApiProcess, Deployment, api_process
from support.stream_client import StreamClient, opened, refused

SOCKETS = 500
DRAIN_SECONDS = 2
GRACE_SECONDS = 10.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def redis() -> AsyncIterator[RedisServer]:
    async with redis_server() as server:
        yield server


async def status_of(http: httpx.AsyncClient, process: ApiProcess) -> int:
    return (await http.get(f"{process.url}/api/accepting")).status_code


async def ends(process: ApiProcess, seconds: float) -> int:
    """The exit code."""
    await eventually(lambda: process.process.poll() is not None, "the process ends", seconds)
    code: int = process.process.returncode
    return code


async def test_sigterm_drains_500_idle_sockets_in_order_and_ends_with_0(
    person: Person, lone_deployment: Deployment, redis: RedisServer
) -> None:
    tickets = await person.tickets()
    environment = lone_deployment.environment(REDIS_URL=redis.url, MEMLANE_DRAIN_SECONDS=str(DRAIN_SECONDS))
    async with (
        api_process(environment, role="gateway") as gateway,
        httpx.AsyncClient() as http,
        AsyncExitStack() as sockets,
    ):

        async def one() -> StreamClient:
            own = resigned(tickets.token, session_id=uuid4().hex)
            return await sockets.enter_async_context(opened(gateway.url, own))

        clients: list[StreamClient] = []
        for _ in range(SOCKETS // 50):
            clients += await asyncio.gather(*(one() for _ in range(50)))
        await clients[0].joined(tickets.topic)
        # This one never answers the close.
        clients[1].socket.transport.pause_reading()

        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)

        async def is_red() -> bool:
            return await status_of(http, gateway) == 503

        await eventually(is_red, "/api/accepting turns red", 1)
        # The load balancer may still send something: it is served.
        async with opened(gateway.url, resigned(tickets.token, session_id=uuid4().hex)) as late:
            await late.joined(tickets.topic)
            await person.save("Written while it drains.")
            await clients[0].has(1, seconds=3)
            await asyncio.sleep(max(0.0, began + DRAIN_SECONDS - 0.3 - time.monotonic()))
            assert [client for client in [late, *clients] if client.closed_at is not None] == []
            assert (await http.get(f"{gateway.url}/api/live")).status_code == 200
            assert await late.closed() == 1012

        answering = [client for client in clients if client is not clients[1]]
        for client in answering:
            assert await client.closed() == 1012
        times = sorted(client.closed_at or 0.0 for client in answering)
        assert times[0] - began >= DRAIN_SECONDS - 0.1
        assert times[-1] - times[0] >= 0.15, "all at once would come back all at once"
        assert await ends(gateway, GRACE_SECONDS) == 0
        assert time.monotonic() - began < DRAIN_SECONDS + GRACE_SECONDS
        assert "Traceback" not in gateway.log
        clients[1].socket.transport.abort()


async def test_an_upgrade_after_the_drain_is_held_a_moment_and_gets_503(
    lone_deployment: Deployment, embedder: Embedder
) -> None:
    async with serving(lone_deployment, embedder) as stream:
        person = await stream.person()
        tickets = await person.tickets()
        stream.process.acceptance.closing = True
        refusal = await refused(person.url, tickets.token)
        assert refusal.status == 503
        assert 1.0 <= refusal.seconds < 2.0


async def test_a_second_sigterm_ends_the_process_at_once(
    person: Person, lone_deployment: Deployment, redis: RedisServer
) -> None:
    tickets = await person.tickets()
    environment = lone_deployment.environment(REDIS_URL=redis.url, MEMLANE_DRAIN_SECONDS="60")
    async with (
        api_process(environment, role="gateway") as gateway,
        httpx.AsyncClient() as http,
        opened(gateway.url, tickets.token) as client,
    ):
        await client.joined(tickets.topic)
        gateway.process.send_signal(signal.SIGTERM)

        async def is_red() -> bool:
            return await status_of(http, gateway) == 503

        await eventually(is_red, "/api/accepting turns red", 1)
        gateway.process.send_signal(signal.SIGTERM)
        await ends(gateway, 3)
        assert await client.closed() in {1006, 1012}
