"""A socket that does not read harms nobody, and catches up when it reads again."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from integration.stream.house import Person, Stream, Tickets, Watch, eventually
from memlane.realtime.client import QUEUE_BYTES
from support.stream_client import address

ROWS, ROW_TEXT = 4000, "x" * 2000
"""About 10 MB of events: more than the queue and the kernel's buffers hold."""
FRAME_MAX = 64 * 1024


class Stalled:
    """A client of its own bytes, with a small receive buffer, that reads only when it is told to."""

    def __init__(self, connection: socket.socket, protocol: ClientProtocol) -> None:
        self._connection = connection
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self.events: list[dict[str, object]] = []
        self.replies: list[object] = []

    async def send(self, message: list[object]) -> None:
        self._protocol.send_text(json.dumps(message).encode())
        await self.flush()

    async def read(self, seconds: float) -> None:
        """Read once."""
        async with asyncio.timeout(seconds):
            data = await self._loop.sock_recv(self._connection, 65536)
        assert data, "the server cut the connection"
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                message = json.loads(bytes(event.data))
                (self.events if message[3] == "memory_metadata" else self.replies).append(message[4])

    async def flush(self) -> None:
        for data in self._protocol.data_to_send():
            await self._loop.sock_sendall(self._connection, data)

    @property
    def rows(self) -> dict[object, object]:
        rows: dict[object, object] = {}
        for event in self.events:
            memory = event.get("memory")
            if isinstance(memory, dict):
                rows[event["memoryId"]] = memory["content"]
            else:
                rows.pop(event["memoryId"], None)
        return rows


@asynccontextmanager
async def stalled(url: str, tickets: Tickets, topic: str) -> AsyncIterator[Stalled]:
    """A socket that has joined a topic and reads no more."""
    parts = urlsplit(url)
    connection = socket.socket()
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (parts.hostname, parts.port))
        protocol = ClientProtocol(parse_uri(address(url, tickets.token)), max_size=None)
        protocol.send_request(protocol.connect())
        client = Stalled(connection, protocol)
        await client.flush()
        while protocol.state is not State.OPEN:
            await client.read(10)
        await client.send(["1", "1", topic, "phx_join", {"fence": False}])
        while not client.replies:
            await client.read(10)
        yield client
    finally:
        connection.close()


def queues_of(stream: Stream) -> list[int]:
    """How much each open socket has in its queue, in bytes."""
    assert stream.process.sessions is not None
    return [client.wire.buffered() for client in stream.process.sessions.clients]


async def test_a_reader_that_stops_overflows_at_1_mib_and_the_others_do_not_notice(
    person: Person, stream: Stream
) -> None:
    await person.save("First.", scope="project")
    channel = await person.channel("project")
    tickets = await person.tickets()
    overflows = Watch("memlane_stream_queue_overflows_total")
    behind = Watch("memlane_stream_resyncs_total", {"cause": "slow_socket"})
    most = 0
    async with AsyncExitStack() as sockets:
        slow = await sockets.enter_async_context(stalled(stream.service.url, tickets, tickets.project_topic))
        readers = [
            await sockets.enter_async_context(person.other(f"u{number}").listening("project", fence=False))
            for number in range(2, 6)
        ]
        for reader in readers:
            await reader.has(1)
        await channel.grow(ROWS, ROW_TEXT)
        began = time.monotonic()
        while any(len(reader.frames) < ROWS + 2 for reader in readers):
            most = max(most, *queues_of(stream))
            assert time.monotonic() - began < 30, [len(reader.frames) for reader in readers]
            await asyncio.sleep(0.01)
        assert overflows.moved >= 1
        assert behind.moved >= 1
        assert most <= QUEUE_BYTES + FRAME_MAX, "the queue is bounded"
        for reader in readers:
            assert reader.seqs() == list(range(1, ROWS + 2))
            reader.frames.clear()
            reader.raw.clear()
        # What comes now reaches the others at once, as if the slow one were not there.
        for number in range(5):
            began = time.monotonic()
            saved = await person.save(f"Shelf {number} holds {number + 3} boxes.", scope="project")
            for reader in readers:
                await reader.has_seq(saved["seq"], seconds=1)
            assert time.monotonic() - began < 1
        retired = saved["id"]
        await person.retire(retired)
        began = time.monotonic()
        while not slow.events or slow.events[-1]["seq"] != saved["seq"] + 1:
            assert time.monotonic() - began < 60, len(slow.events)
            await slow.read(10)
        shown = await person.service.deployment.fetch(
            "select id::text, content from memories where channel_id = $1 and retired_at is null", channel.id
        )
        assert slow.rows == {row["id"]: row["content"] for row in shown}


async def test_a_slow_reader_that_comes_back_is_live_again(person: Person, stream: Stream) -> None:
    await person.save("First.")
    channel = await person.channel()
    tickets = await person.tickets()
    behind = Watch("memlane_stream_resyncs_total", {"cause": "slow_socket"})
    async with stalled(stream.service.url, tickets, tickets.topic) as slow:
        await channel.grow(ROWS, ROW_TEXT)
        await eventually(lambda: behind.moved >= 1, "the socket falls behind")
        began = time.monotonic()
        while not slow.events or slow.events[-1]["seq"] != ROWS + 1:
            assert time.monotonic() - began < 60, len(slow.events)
            await slow.read(10)
        saved = await person.save("Live again.")
        while slow.events[-1]["seq"] != saved["seq"]:
            await slow.read(1)
        seqs = [event["seq"] for event in slow.events]
        assert seqs == sorted(seqs)


async def test_one_that_asks_and_never_reads_is_cut(person: Person, stream: Stream) -> None:
    tickets = await person.tickets()
    sessions = stream.process.sessions
    assert sessions is not None
    async with stalled(stream.service.url, tickets, tickets.topic) as slow:
        (client,) = [one for one in sessions.clients if one.claims.project == (await person.channel()).project_id]
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(20):
                while client in sessions.clients:
                    # A ref of 255 characters makes the answer as long as the question.
                    await slow.send([None, "x" * 255, "phoenix", "heartbeat", {}])
        await eventually(lambda: client not in sessions.clients, "the socket is cut", 5)


async def test_after_a_thousand_abrupt_disconnects_tasks_and_feeds_are_as_before(
    person: Person, stream: Stream
) -> None:
    sessions = stream.process.sessions
    assert sessions is not None
    await person.save("First.", scope="project")
    people = [person.other(f"user-{number}") for number in range(50)]
    everyone = [await one.tickets() for one in people]
    async with person.listening("project"):
        await asyncio.sleep(0.2)
        before = len(asyncio.all_tasks()), len(stream.hub._feeds), len(sessions.clients)
        for _round in range(5):
            await asyncio.gather(*(_come_and_go(person, tickets) for tickets in everyone for _ in range(4)))
        await eventually(lambda: len(sessions.clients) == before[2], "all sockets are gone")
        await eventually(
            lambda: (len(asyncio.all_tasks()), len(stream.hub._feeds)) <= before[:2], "tasks and feeds are as before"
        )
        assert not any(sessions._sockets[session] for session in list(sessions._sockets)[1:])


async def _come_and_go(person: Person, tickets: Tickets) -> None:
    """Open a socket and join by bare bytes, then cut the connection."""
    parts = urlsplit(person.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    target = address(person.url, tickets.token).partition(parts.netloc)[2]
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        (
            f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
    )
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    assert b" 101 " in head, head
    join = json.dumps(["1", "1", tickets.topic, "phx_join", {}]).encode()
    writer.write(Frame(Opcode.TEXT, join).serialize(mask=True))
    await asyncio.wait_for(reader.read(200), 20)
    writer.transport.abort()
