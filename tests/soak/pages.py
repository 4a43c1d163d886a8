"""Open pages: each holds one channel's rows as Memlane's own client does, through whatever happens to the gateways."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import uniform
from typing import Any
from urllib.parse import urlencode

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from soak.requests import Requests

HEARTBEAT_SECONDS = 25.0
REPLY_SECONDS = 20.0
OPEN_SECONDS = 15.0


@dataclass(eq=False)
class Page:
    """One socket on one channel: a user's own, or the project's."""

    user: str
    scope: str
    requests: Requests
    gateways: Callable[[], list[str]]
    rows: dict[str, str] = field(default_factory=dict)
    position: dict[str, Any] | None = None
    connected: bool = False
    connects: int = 0
    lists: int = 0
    closing: bool = False
    faults: list[str] = field(default_factory=list)
    _ticket: tuple[str, str] | None = None
    _turn: int = 0

    @property
    def owner(self) -> str:
        """Whose rows it shows; '' for the project's."""
        return self.user if self.scope == "user" else ""

    async def run(self) -> None:
        """Keep the page right until it is cancelled."""
        pause = 0.1
        while True:
            try:
                if self._ticket is None:
                    self._ticket = await self._subscribe()
                if self.position is None:
                    await self._list()
                await self._serve()
                pause = 0.1
            except InvalidStatus as refusal:
                if refusal.response.status_code == 403:
                    self._ticket = None
                pause = min(2.0, pause * 2)
            except (OSError, TimeoutError, WebSocketException, InvalidHandshake):
                pause = min(2.0, pause * 2)
            finally:
                self.connected = False
            self._turn += 1
            await asyncio.sleep(uniform(0.2, 1.0) * pause)  # noqa: S311 - jitter is no secret

    async def _subscribe(self) -> tuple[str, str]:
        answer = await self.requests.send("POST", "/api/memories/subscribe", self.user, {})
        if self.scope == "user":
            return answer["joinToken"], f"user_meta:memories:{answer['joinCode']}"
        return answer["projectJoinToken"], f"project_meta:memories:{answer['projectJoinCode']}"

    async def _list(self) -> None:
        answer = await self.requests.send("GET", "/api/memories?limit=2000", self.user, None)
        self.rows = {one["id"]: one["content"] for one in answer["memories"] if one["scope"] == self.scope}
        self.position = answer["positions"][self.scope]
        self.lists += 1

    async def _serve(self) -> None:
        assert self._ticket is not None
        token, topic = self._ticket
        urls = self.gateways()
        url = urls[self._turn % len(urls)].replace("http", "ws", 1)
        query = urlencode({"vsn": "2.0.0", "join_token": token})
        async with connect(
            f"{url}/client/websocket?{query}",
            compression=None,
            ping_interval=None,
            max_size=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=1,
            proxy=None,
        ) as socket:
            join = ["1", "1", topic, "phx_join", {"fence": False, "last": self.position}]
            await socket.send(orjson.dumps(join).decode())
            async with asyncio.timeout(REPLY_SECONDS):
                reply = orjson.loads(await socket.recv())
            if reply[4]["status"] != "ok":
                self._ticket = None
                return
            if not reply[4]["response"]["recovered"]:
                self.position = None
                return
            self.connected = True
            self.connects += 1
            await self._listen(socket)

    async def _listen(self, socket: ClientConnection) -> None:
        beat = asyncio.create_task(self._beat(socket))
        try:
            async for text in socket:
                frame = orjson.loads(text)
                if frame[3] == "memory_metadata":
                    self._apply(frame[4])
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError, WebSocketException):
                await beat

    async def _beat(self, socket: ClientConnection) -> None:
        while True:
            await asyncio.sleep(uniform(0.5, 1.0) * HEARTBEAT_SECONDS)  # noqa: S311 - the same
            await socket.send('[null,"beat","phoenix","heartbeat",{}]')

    def _apply(self, event: dict[str, Any]) -> None:
        assert self.position is not None
        if event["seq"] < self.position["seq"]:
            self.faults.append(f"seq {event['seq']} after {self.position['seq']}")
        self.position = {"epoch": event["epoch"], "seq": max(event["seq"], self.position["seq"])}
        if event["operation"] == "invalidated":
            self.rows.pop(event["memoryId"], None)
        else:
            self.rows[event["memoryId"]] = event["memory"]["content"]
