"""A TCP load balancer in front of the gateways: round robin over those that accept, and faults on demand.

Clients keep one URL whatever happens behind it. A backend leaves the rotation when it refuses a connection or when
its `/api/accepting` is red, as with any real balancer.
"""

import asyncio
import base64
import itertools
import json
import re
import socket
import struct
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import httpx

CHUNK = 16 * 1024
HEALTH_SECONDS = 0.2
_TOKEN = re.compile(rb"join_token=([^&\s]+)")
_OFFERED = re.compile(rb"base64url\.bearer\.phx\.([^,\s]+)")


@dataclass(eq=False)
class Backend:
    """A gateway by its port."""

    port: int
    accepting: bool = True


@dataclass(eq=False)
class Link:
    """One client's connection and its other half. ``user`` stands in the join token of the upgrade."""

    client: socket.socket
    backend: Backend
    server: socket.socket
    user: str = ""
    reading: asyncio.Event = field(default_factory=asyncio.Event)

    def cut(self) -> None:
        """Reset both halves."""
        for half in (self.client, self.server):
            with suppress(OSError):
                half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                half.shutdown(socket.SHUT_RDWR)


class Balancer:
    """Use as an async context manager."""

    def __init__(self) -> None:
        self.backends: list[Backend] = []
        self.links: set[Link] = set()
        self.refusing = False
        self._turn = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(1024)
        self._listener.setblocking(False)
        self.url = f"ws://127.0.0.1:{self._listener.getsockname()[1]}/client"

    async def __aenter__(self) -> Self:
        """Begin to accept."""
        self._run(self._accept())
        self._run(self._watch_health())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cut everything."""
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()

    def cut(self, share: float = 1.0, random: Random | None = None, port: int | None = None) -> int:
        """Cut a share of the open connections, perhaps of one backend alone, and give their number."""
        chosen = [link for link in self.links if port is None or link.backend.port == port]
        if random is not None:
            chosen = random.sample(sorted(chosen, key=_place), round(len(chosen) * share))
        for link in chosen:
            link.cut()
        return len(chosen)

    def stall(self, user: str) -> list[Link]:
        """Stop reading from the gateway for one user's connections; set ``reading`` of each to go on."""
        links = [link for link in self.links if link.user == user]
        for link in links:
            link.reading.clear()
        return links

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._listener)
            self._run(self._serve(client))

    async def _serve(self, client: socket.socket) -> None:
        client.setblocking(False)
        link = await self._connect(client)
        if link is None:
            client.close()
            return
        link.reading.set()
        self.links.add(link)
        try:
            up = asyncio.ensure_future(self._pump_up(link))
            down = asyncio.ensure_future(self._pump_down(link))
            try:
                await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
                # What one side sent last still goes through when the other has closed.
                await asyncio.wait({up, down}, timeout=0.2)
            finally:
                up.cancel()
                down.cancel()
                await asyncio.gather(up, down, return_exceptions=True)
        finally:
            self.links.discard(link)
            link.client.close()
            link.server.close()

    async def _connect(self, client: socket.socket) -> Link | None:
        if self.refusing:
            return None
        candidates = [backend for backend in self.backends if backend.accepting]
        start = next(self._turn)
        for step in range(len(candidates)):
            backend = candidates[(start + step) % len(candidates)]
            server = socket.socket()
            server.setblocking(False)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
            try:
                await asyncio.get_running_loop().sock_connect(server, ("127.0.0.1", backend.port))
            except OSError:
                server.close()
                continue
            return Link(client, backend, server)
        return None

    async def _pump_up(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await loop.sock_recv(link.client, CHUNK):
                link.user = link.user or _user_of(data)
                await loop.sock_sendall(link.server, data)
            link.server.shutdown(socket.SHUT_WR)

    async def _pump_down(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                await link.reading.wait()
                data = await loop.sock_recv(link.server, CHUNK)
                if not data:
                    break
                await loop.sock_sendall(link.client, data)
            link.client.shutdown(socket.SHUT_WR)

    async def _watch_health(self) -> None:
        async with httpx.AsyncClient(timeout=1.0) as client:
            while True:
                for backend in list(self.backends):
                    try:
                        answer = await client.get(f"http://127.0.0.1:{backend.port}/api/accepting")
                        backend.accepting = answer.status_code == httpx.codes.OK
                    except httpx.TransportError:
                        # Slow is not dead: connecting will tell.
                        continue
                await asyncio.sleep(HEALTH_SECONDS)

    def _run(self, act: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _place(link: Link) -> int:
    try:
        port: int = link.client.getpeername()[1]
    except OSError:
        return 0
    return port


def _user_of(data: bytes) -> str:
    found, offered = _TOKEN.search(data), _OFFERED.search(data)
    if found is not None:
        token = found[1]
    elif offered is not None:
        token = _decoded(offered[1])
    else:
        return ""
    return str(json.loads(_decoded(token.split(b".")[1]))["u"])


def _decoded(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
