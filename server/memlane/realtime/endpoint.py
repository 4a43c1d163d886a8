"""`/client/websocket`: one upgrade, then the pump of one socket.

Only a correctly signed token is ever held; anything else is answered 403 at once. What is refused for good is
held 2 s first: the stock client gives up after five quick refusals, and would otherwise come back nine times
a second.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope, Send

from memlane.domain.decisions import Denied
from memlane.domain.errors import TokenRejected, Unavailable
from memlane.domain.stream import JoinClaims
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.observability.tracing import SpanKind, span
from memlane.phoenix.frames import accepts_vsn
from memlane.phoenix.subprotocols import PHOENIX, bearer_tokens
from memlane.realtime.client import Client
from memlane.realtime.hub import Hub
from memlane.realtime.sessions import Sessions
from memlane.realtime.wire import EXTENSION, Wire
from memlane.usecases.ports import JoinTokens

REFUSAL_HOLD_SECONDS = 2.0
"""How long a refusal is held (realtime.md, What the stock client does, 4 and 5)."""
UPGRADE_HOLD_SECONDS = 6.0
"""Longest wait for a passing fault at the upgrade; the join has what is left of the 8 s."""
HELD_MAX = 5000
"""Most upgrades that are held at once in this process; one more is answered 503 at once."""
QUERY_MAX = 6144
"""Longest query string, in bytes: a token has at most 4,096."""


@dataclass(slots=True)
class StreamEndpoint:
    """The ASGI endpoint.

    Args:
        tokens: Verifies join tokens.
        sessions: Decides and counts.
        hub: Serves subscriptions.
        closing: Whether the process is about to end.
        origins: Allowed ``Origin`` values; None allows all. It is checked only when it is sent.
    """

    tokens: JoinTokens
    sessions: Sessions
    hub: Hub
    closing: Callable[[], bool]
    origins: frozenset[str] | None = None
    monotonic: Callable[[], float] = time.monotonic
    _held: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket."""
        began = self.monotonic()
        await receive()
        claims = self._claims(scope)
        if isinstance(claims, str):
            await self._refuse(send, 403, claims)
            return
        if self.closing():
            # Held for a moment: the stock client counts quick refusals, and soon another process will answer.
            await self._refuse_later(send, "draining", status=503, hold_seconds=1.0)
            return
        if not self.sessions.take_place(claims):
            await self._refuse_later(send, "too_many_sockets")
            return
        try:
            await self._open(scope, receive, send, claims, began)
        finally:
            self.sessions.give_place(claims)

    def _claims(self, scope: Scope) -> JoinClaims | str:
        """The token's claims, or why the upgrade is refused at once."""
        raw: bytes = scope["query_string"]
        if len(raw) > QUERY_MAX:
            return "query_too_long"
        query = parse_qs(raw.decode("latin-1"), keep_blank_values=True)
        if not accepts_vsn(_only(query.get("vsn"))):
            return "vsn"
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if self.origins is not None and origins and not self.origins.issuperset(origins):
            return "origin"
        # One token in one place: of two, nobody could say which one counts.
        given = [*query.get("join_token", []), *bearer_tokens(scope["subprotocols"])]
        try:
            return self.tokens.verify(_only(given) or "")
        except TokenRejected as fault:
            return f"token_{fault.message}"

    async def _open(self, scope: Scope, receive: Receive, send: Send, claims: JoinClaims, began: float) -> None:
        if self._held >= HELD_MAX:
            await self._refuse(send, 503, "too_many_held")
            return
        self._hold(1)
        try:
            with span("stream upgrade", kind=SpanKind.SERVER):
                decision = await self.sessions.admit(claims, until=began + UPGRADE_HOLD_SECONDS)
        except Unavailable:
            await self._refuse(send, 503, "unavailable")
            return
        finally:
            self._hold(-1)
        if isinstance(decision, Denied):
            await self._refuse_later(send, decision.code)
            return
        wire: Wire = scope["extensions"][EXTENSION]
        await send({"type": "websocket.accept", "subprotocol": PHOENIX if PHOENIX in scope["subprotocols"] else None})
        client = Client(wire, claims, self.hub, began)
        self.sessions.opened(client)
        try:
            await self._pump(client, receive)
        finally:
            self.sessions.gone(client)
            client.leave_all()

    async def _pump(self, client: Client, receive: Receive) -> None:
        while True:
            message: Message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            now = self.monotonic()
            text = message.get("text")
            effects = client.connection.receive_binary() if text is None else client.connection.receive_text(text, now)
            client.carry_out(effects, now)

    async def _refuse_later(
        self, send: Send, reason: str, *, status: int = 403, hold_seconds: float = REFUSAL_HOLD_SECONDS
    ) -> None:
        if self._held >= HELD_MAX:
            await self._refuse(send, 503, "too_many_held")
            return
        self._hold(1)
        try:
            await asyncio.sleep(hold_seconds)
        finally:
            self._hold(-1)
        await self._refuse(send, status, reason)

    async def _refuse(self, send: Send, status: int, reason: str) -> None:
        metrics.STREAM_REFUSALS.labels(reason).inc()
        log.info("upgrade_refused", reason=reason, status=status)
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b""})

    def _hold(self, change: int) -> None:
        self._held += change
        metrics.STREAM_HELD.set(self._held)


def _only(values: list[str] | None) -> str | None:
    return values[0] if values is not None and len(values) == 1 else None
