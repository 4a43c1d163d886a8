"""A raw Phoenix client for tests: it sends what a test says and records every frame with its time.

It knows nothing of positions or retries, so that a test sees exactly what the server does.
"""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

PATIENCE = 10.0
"""Seconds that a test waits for what must come."""


@dataclass(frozen=True, slots=True)
class Received:
    """A frame from the server and when it came, in monotonic seconds."""

    at: float
    join_ref: str | None
    ref: str | None
    topic: str
    event: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """An upgrade that the server refused, and how long that took, in seconds."""

    status: int
    seconds: float


@dataclass(slots=True, eq=False)
class StreamClient:
    """An open socket."""

    socket: ClientConnection
    frames: list[Received] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    close_code: int | None = None
    closed_at: float | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _refs: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def listen(self) -> None:
        """Record until the socket ends."""
        try:
            async for message in self.socket:
                assert isinstance(message, str), "the server sends text alone"
                self.raw.append(message)
                self.frames.append(Received(time.monotonic(), *json.loads(message)))
                self._changed.set()
        except ConnectionClosed:
            pass
        self.close_code, self.closed_at = self.socket.close_code, time.monotonic()
        self._changed.set()

    # What the client says

    async def send(self, join_ref: str | None, ref: str | None, topic: str, event: str, payload: object = None) -> None:
        """Send one message; the payload is ``{}`` unless given."""
        await self.send_text(json.dumps([join_ref, ref, topic, event, {} if payload is None else payload]))

    async def send_text(self, text: str | bytes) -> None:
        """Send any frame; into a socket that the server closes meanwhile it goes nowhere."""
        with suppress(ConnectionClosed):
            await self.socket.send(text)

    async def join(self, topic: str, payload: object = None, ref: str | None = None) -> Received:
        """Join a topic and give the reply."""
        ref = ref or str(next(self._refs))
        await self.send(ref, ref, topic, "phx_join", payload)
        return await self.reply(ref)

    async def joined(self, topic: str, payload: object = None, ref: str | None = None) -> Any:
        """Join a topic, expect ok, and give the response."""
        reply = await self.join(topic, payload, ref)
        assert reply.payload["status"] == "ok", reply
        return reply.payload["response"]

    async def silence(self, seconds: float) -> list[Received]:
        """What comes within some time."""
        before = len(self.frames)
        await asyncio.sleep(seconds)
        return self.frames[before:]

    async def round_trip(self) -> None:
        """Return when everything that the server had sent before is here."""
        ref = f"beat{next(self._refs)}"
        await self.send(None, ref, "phoenix", "heartbeat")
        await self.reply(ref)

    # What the server says

    async def until(self, holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        """Wait until something holds of what was received."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what}: not within {seconds:g} s; got {self.frames[-5:]}") from None

    async def reply(self, ref: str, seconds: float = PATIENCE) -> Received:
        """The reply to a ref."""

        def replies() -> list[Received]:
            return [one for one in self.frames if one.event == "phx_reply" and one.ref == ref]

        await self.until(replies, f"a reply to {ref}", seconds)
        return replies()[0]

    def events(self, topic: str | None = None) -> list[Any]:
        """The payloads of all `memory_metadata`, in order."""
        return [one.payload for one in self.frames if one.event == "memory_metadata" and topic in {None, one.topic}]

    def seqs(self, topic: str | None = None) -> list[int]:
        return [event["seq"] for event in self.events(topic)]

    def first_seqs(self, topic: str | None = None) -> list[int]:
        """The seq of every first delivery, in the order of its coming."""
        return list(dict.fromkeys(self.seqs(topic)))

    async def has(self, count: int, topic: str | None = None, seconds: float = PATIENCE) -> list[Any]:
        """Wait for so many `memory_metadata`, and give them."""
        await self.until(lambda: len(self.events(topic)) >= count, f"{count} events", seconds)
        return self.events(topic)

    async def has_seq(self, seq: int, topic: str | None = None, seconds: float = PATIENCE) -> Any:
        """Wait for the event of a seq, and give it."""
        await self.until(lambda: seq in self.seqs(topic), f"seq {seq}", seconds)
        return next(event for event in self.events(topic) if event["seq"] == seq)

    def rows(self, topic: str | None = None) -> dict[str, str]:
        """What a page shows after all that came: content by id."""
        rows: dict[str, str] = {}
        for event in self.events(topic):
            if event["operation"] == "invalidated":
                rows.pop(event["memoryId"], None)
            else:
                rows[event["memoryId"]] = event["memory"]["content"]
        return rows

    async def closed(self, seconds: float = PATIENCE) -> int | None:
        """Wait for the end and give the close code; 1006 for a cut connection."""
        await self.until(lambda: self.closed_at is not None, "the socket's end", seconds)
        return self.close_code

    async def cut(self) -> None:
        """End the connection without a close frame."""
        self.socket.transport.abort()
        await self.closed()


def address(url: str, token: str | None, vsn: str | None = "2.0.0") -> str:
    """Where a socket is opened on a served URL."""
    query = {name: value for name, value in (("join_token", token), ("vsn", vsn)) if value is not None}
    return f"{url.replace('http', 'ws', 1)}/client/websocket?{urlencode(query)}"


@asynccontextmanager
async def opened(
    url: str,
    token: str | None,
    *,
    vsn: str | None = "2.0.0",
    headers: Mapping[str, str] | None = None,
    subprotocols: Sequence[str] | None = None,
) -> AsyncIterator[StreamClient]:
    """Open a socket; raises `InvalidStatus` when the upgrade is refused."""
    async with connect(
        address(url, token, vsn),
        additional_headers=headers,
        subprotocols=None if subprotocols is None else [Subprotocol(one) for one in subprotocols],
        compression=None,
        ping_interval=None,
        max_size=None,
        open_timeout=15,
        close_timeout=2,
        max_queue=None,
        proxy=None,
    ) as socket:
        client = StreamClient(socket)
        listening = asyncio.get_running_loop().create_task(client.listen())
        try:
            yield client
        finally:
            await socket.close()
            await listening


async def refused(url: str, token: str | None, **options: Any) -> Refusal:
    """Expect that an upgrade is refused; ``options`` as for `opened`."""
    began = time.monotonic()
    try:
        async with opened(url, token, **options):
            raise AssertionError("the upgrade was not refused")
    except InvalidStatus as fault:
        return Refusal(fault.response.status_code, time.monotonic() - began)
