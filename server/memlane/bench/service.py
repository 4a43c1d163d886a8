"""The service, asked over HTTP by a client that costs next to nothing.

A request's bytes are prepared before the clock starts. Of an answer only the status line and the
Content-Length are read. Each client keeps one connection through a round.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import orjson

from memlane.bench.corpus import question, sentence
from memlane.bench.deployment import HOST, BenchFailed, Deployment, kind_of
from memlane.bench.rounds import Action, Job, Round, closed_loop

_EXPECTED: dict[Action, int] = {"save": 201, "recall": 200, "list": 200}


class KeepAlive(asyncio.Protocol):
    """One connection: a request at a time, and the status of its answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._missing = 0
        self._answer: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's has the methods, but not the class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Count what came; once the head and the body are there, the answer is."""
        self._received += data
        if not self._missing:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            self._missing = end + 4 + content_length(bytes(self._received[:end]))
        if len(self._received) >= self._missing and self._answer is not None:
            self._answer.set_result(int(self._received[9:12]))
            self._answer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail who waits."""
        if self._answer is not None:
            self._answer.set_exception(exc or ConnectionResetError("the service closed the connection"))
            self._answer = None

    async def ask(self, request: bytes) -> int:
        """Send a request and return the status of its answer."""
        if self._transport is None:
            raise ConnectionResetError("not connected")
        self._received.clear()
        self._missing = 0
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def content_length(head: bytes) -> int:
    """The Content-Length of an answer's head, 0 where there is none."""
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


class Service:
    """Implements `rounds.Side`."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def run(self, job: Job) -> Round:
        """See `Side.run`. The connections are made before the clock starts; the service closes idle ones after 5 s."""
        requests = [self._prepared(job.action, job.first + place) for place in range(job.count)]
        connections: list[KeepAlive] = []
        try:
            for _ in range(job.clients):
                connections.append(await self._connected())  # noqa: PERF401 - all that were made are closed below
            return await closed_loop(requests, [_sender(one, _EXPECTED[job.action]) for one in connections])
        finally:
            for connection in connections:
                connection.close()

    async def aclose(self) -> None:
        """See `Side.aclose`."""

    async def _connected(self) -> KeepAlive:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(KeepAlive, HOST, self._deployment.port)
        return connection

    def _prepared(self, action: Action, number: int) -> bytes:
        if action == "list":
            return self._request("GET", "/api/memories", number)
        if action == "recall":
            return self._request("POST", "/api/memories/recall", number, {"query": question(number)})
        draft = {"content": sentence(number), "kind": kind_of(number)}
        return self._request("POST", "/api/memories", number, draft)

    def _request(self, method: str, path: str, number: int, body: dict[str, str] | None = None) -> bytes:
        content = b"" if body is None else orjson.dumps(body)
        head = (
            f"{method} {path} HTTP/1.1\r\n"
            f"Host: {HOST}:{self._deployment.port}\r\n"
            f"Authorization: Bearer {self._deployment.key}\r\n"
            f"X-Cpki-User-Id: {self._deployment.user(number)}\r\n"
        )
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        return head.encode() + b"\r\n" + content


def _sender(connection: KeepAlive, expected: int) -> Callable[[bytes], Awaitable[None]]:
    async def send(request: bytes) -> None:
        status = await connection.ask(request)
        if status != expected:
            raise BenchFailed(f"the service answered {status} instead of {expected}")

    return send
