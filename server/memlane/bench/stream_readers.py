"""The sockets that read, in one process: as cheap as a client can be, and the same for service and floor."""

import asyncio
import base64
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from memlane.bench.deployment import HOST, BenchFailed
from memlane.bench.report import percentile
from memlane.bench.service import KeepAlive

PATIENCE_SECONDS = 30.0
"""Longest wait for frames that must come."""
AFTER_SECONDS = 0.3
"""Wait after the last write, for what is under way."""
OPENING_AT_ONCE = 25
"""Sockets that are opened together."""
STALLING_BYTES = 32 * 1024
"""Receive buffer of a socket that may stall: else its kernel would read megabytes in its place."""
_SHORT, _LONG = 126, 127
_EVENT = b',"memory_metadata",'


@dataclass(frozen=True, slots=True)
class Line:
    """One socket to open: where, and what it says once it is open.

    Attributes:
        port: On loopback.
        target: Path and query.
        joins: Texts to send; each is answered with one frame.
        may_stall: Whether it gets a small receive buffer.
    """

    port: int
    target: str
    joins: tuple[str, ...] = ()
    may_stall: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """Writes at a steady rate, whoever answers how late.

    Attributes:
        port: The service's.
        requests: The writes, in order.
        per_second: How many are sent.
        connections: Over how many connections.
    """

    port: int
    requests: Sequence[bytes]
    per_second: float
    connections: int = 16


@dataclass(frozen=True, slots=True)
class Latencies:
    """From an event's time in the database to its receipt: first deliveries.

    Attributes:
        count: How many.
        p50_ms: Median.
        p99_ms: Of a hundred, all but one.
        per_second: Writes that were answered each second.
    """

    count: int
    p50_ms: float
    p99_ms: float
    per_second: float


@dataclass(slots=True)
class Group:
    """Sockets that are counted together: frames still expected, when the last came, latencies where they are noted."""

    name: str
    left: int = 0
    done_at: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    newest: bytes = b""
    timed: bool = False
    latencies: list[float] = field(default_factory=list)
    read: dict[bytes, tuple[int, float]] = field(default_factory=dict)

    def expect(self, frames: int) -> None:
        """Count from now on."""
        self.left = frames
        self.done.clear()

    def came(self) -> None:
        """One frame."""
        self.left -= 1
        if self.left == 0:
            self.done_at = time.monotonic()
            self.done.set()

    def times_of(self, text: bytes) -> tuple[int, float]:
        """An event's seq and moment; many sockets get the same bytes."""
        found = self.read.get(text)
        if found is None:
            payload = orjson.loads(text)[4]
            moment = datetime.fromisoformat(payload["occurredAt"]).timestamp()
            if len(self.read) > 100:  # noqa: PLR2004 - enough for every event under way
                self.read.clear()
            found = self.read[text] = payload["seq"], moment
        return found


class Reader(asyncio.Protocol):
    """One socket: counts whole frames; everything else only where it is asked for."""

    __slots__ = ("_pending", "group", "last", "left_out", "opened", "transport")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.last = 0
        self.left_out = False
        self.transport: Any = None
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Count the frames; a rest waits for what follows."""
        now = time.time() if self.group.timed else 0.0
        if self._pending:
            data = self._pending + data
        if not self.opened.done():
            head, gap, data = data.partition(b"\r\n\r\n")
            if not gap:
                self._pending = head
                return
            status = head[9:12]
            if status != b"101":
                self.opened.set_exception(BenchFailed(f"an upgrade was answered {status.decode()}"))
                return
            self.opened.set_result(None)
        start, end = 0, len(data)
        while end - start > 1:
            head_end, length = _size(data, start, end)
            if head_end + length > end:
                break
            if self.group.timed:
                self._time(data[head_end : head_end + length], now)
            self.group.came()
            if self.group.left == 0:
                self.group.newest = data[head_end : head_end + length]
            start = head_end + length
        self._pending = data[start:] if start < end else b""

    def _time(self, text: bytes, now: float) -> None:
        if _EVENT not in text[:160]:
            return
        seq, moment = self.group.times_of(text)
        if seq > self.last:
            self.last = seq
            if not self.left_out:
                self.group.latencies.append(now - moment)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who waits for the upgrade."""
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionResetError("closed during the upgrade"))

    def send(self, text: str) -> None:
        """Send a short text frame, masked with zeros as the standard lets a client choose."""
        data = text.encode()
        head = bytes([0x81, 0x80 | len(data)]) if len(data) < _SHORT else b"\x81\xfe" + len(data).to_bytes(2, "big")
        self.transport.write(head + bytes(4) + data)


def _size(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Where a frame's payload begins and how long it is; past the end where the head itself is not whole."""
    length = data[start + 1]
    if length < _SHORT:
        return start + 2, length
    head_end = start + (4 if length == _SHORT else 10)
    return (head_end, int.from_bytes(data[start + 2 : head_end], "big")) if head_end <= end else (head_end, 1)


class Readers:
    """What the process serves; the groups of sockets stay open side by side."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[Group, list[Reader]]] = {}

    async def open(self, name: str, lines: Sequence[Line]) -> None:
        """Open a group, and wait until every join is answered."""
        group, readers = self._groups[name] = Group(name), []
        group.expect(sum(len(line.joins) for line in lines) or -1)
        for start in range(0, len(lines), OPENING_AT_ONCE):
            readers += await asyncio.gather(*(_opened(group, one) for one in lines[start : start + OPENING_AT_ONCE]))
        if any(line.joins for line in lines):
            await self.done(name)

    async def close(self, name: str) -> None:
        """Cut a group's sockets."""
        for reader in self._groups.pop(name)[1]:
            reader.transport.abort()

    async def beat(self, name: str) -> None:
        """Say that the sockets live, and wait for the answers: a socket that says nothing for 60 s is closed."""
        group, readers = self._groups[name]
        group.expect(len(readers))
        for reader in readers:
            reader.send('[null,"0","phoenix","heartbeat",{}]')
        await self.done(name)

    async def expect(self, name: str) -> None:
        """Count one frame to every socket from now on."""
        group, readers = self._groups[name]
        group.expect(len(readers))

    async def done(self, name: str) -> float:
        """Wait for the last of them; when it came, in monotonic seconds."""
        group = self._groups[name][0]
        try:
            await asyncio.wait_for(group.done.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            raise BenchFailed(f"{group.left} frames did not come within {PATIENCE_SECONDS:.0f} s") from None
        return group.done_at

    async def newest(self, name: str) -> str:
        """The text of the frame that came last."""
        return self._groups[name][0].newest.decode()

    async def drive(self, name: str, load: Load, stalled: int | None = None) -> Latencies:
        """Write at a steady rate and note how late the events come.

        Args:
            name: The group that reads.
            load: What is written.
            stalled: The place of a socket whose latencies do not count.
        """
        group, readers = self._groups[name]
        group.timed, group.latencies = True, []
        for place, reader in enumerate(readers):
            reader.left_out = place == stalled
        seconds = await _send(load)
        # What is under way still comes; sent again it is not counted.
        await asyncio.sleep(AFTER_SECONDS)
        group.timed = stalled is not None
        if not group.latencies:
            raise BenchFailed("no event came")
        millis = [1000 * one for one in group.latencies]
        return Latencies(len(millis), percentile(millis, 0.5), percentile(millis, 0.99), len(load.requests) / seconds)

    async def stall(self, name: str, place: int) -> None:
        """Stop reading on one socket."""
        self._groups[name][1][place].transport.pause_reading()

    async def catch_up(self, name: str, place: int) -> float:
        """Read again; the seconds until that socket knows the newest state that the others know."""
        group, readers = self._groups[name]
        newest, began = max(one.last for one in readers), time.monotonic()
        group.timed = True
        readers[place].transport.resume_reading()
        while readers[place].last < newest:
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise BenchFailed(f"the stalled socket is at {readers[place].last}, the others at {newest}")
            await asyncio.sleep(0.01)
        return time.monotonic() - began


async def _opened(group: Group, line: Line) -> Reader:
    loop = asyncio.get_running_loop()
    plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    plain.setblocking(False)
    if line.may_stall:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STALLING_BYTES)
    await loop.sock_connect(plain, (HOST, line.port))
    _, reader = await loop.create_connection(lambda: Reader(group), sock=plain)
    key = base64.b64encode(os.urandom(16)).decode()
    reader.transport.write(
        (
            f"GET {line.target} HTTP/1.1\r\nHost: {HOST}:{line.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
    )
    await reader.opened
    for text in line.joins:
        reader.send(text)
    return reader


async def _send(load: Load) -> float:
    """Send every request at its time, each connection in order; the seconds until the last answer."""
    loop = asyncio.get_running_loop()
    connections = [(await loop.create_connection(KeepAlive, HOST, load.port))[1] for _ in range(load.connections)]
    began = time.monotonic()

    async def work(connection: KeepAlive, first: int) -> None:
        for number in range(first, len(load.requests), load.connections):
            await asyncio.sleep(began + number / load.per_second - time.monotonic())
            status = await connection.ask(load.requests[number])
            if status not in {200, 204}:
                raise BenchFailed(f"a write was answered {status}")

    try:
        await asyncio.gather(*(work(one, first) for first, one in enumerate(connections)))
    finally:
        for connection in connections:
            connection.close()
    return time.monotonic() - began
