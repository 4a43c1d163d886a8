"""`/mcp`: MCP's streamable HTTP without sessions, so that any process can serve any request."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from memlane.domain.errors import MemlaneError, PayloadTooLarge, ValidationFailed
from memlane.mcp_tools.server import MemoryServer, protocol_error
from memlane.rest.bodies import encode
from memlane.rest.credentials import key_of
from memlane.rest.door import Operation, PathDoor
from memlane.rest.errors import error_response
from memlane.rest.parsing import BODY_MAX, read_body
from memlane.usecases.authenticate import Gate
from memlane.usecases.ports import Services

PATH = "/mcp"
_ANSWERED_INSIDE = frozenset({"tools/list", "tools/call", "notifications/initialized"})
"""Methods whose refusal stands in their own answer; what opens a conversation is refused with HTTP 401."""


class McpEndpoint:
    """The endpoint; the SDK's session manager lives once, for as long as the process does.

    Args:
        services: What the use cases work with.
        gate: Decides on key and entitlement.
        hosts: The names that a `Host` header may give this service, `name:*` for any port (DNS rebinding).
        origins: The `Origin`s that a browser may come from; a request without one is no browser's.
    """

    def __init__(self, services: Services, gate: Gate, *, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._gate = gate
        self.manager = StreamableHTTPSessionManager(
            MemoryServer(services, gate).build(),
            json_response=True,
            stateless=True,
            security_settings=TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins)),
            max_request_body_size=BODY_MAX,
        )

    def route(self) -> Route:
        """POST alone: there is no session whose events a GET could follow or a DELETE could end."""
        return Route(PATH, PathDoor(PATH, {"POST": Operation(self.post)}))

    async def post(self, request: Request) -> Response:
        """One message of the protocol.

        Raises:
            Unauthenticated, StorageUnavailable: Of a message that is neither a list nor a call.
        """
        try:
            body = await read_body(request)
        except (PayloadTooLarge, ValidationFailed) as fault:
            return _unread(fault, request)
        if _method_of(body) not in _ANSWERED_INSIDE:
            await key_of(request, self._gate)
        sent: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        answered = _Answer()

        async def receive() -> Message:
            return sent.pop() if sent else await request.receive()

        await self.manager.handle_request(request.scope, receive, answered.take)
        return answered.response()


class _Answer:
    """Gathers what the SDK sends; JSON answers are small and whole."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    async def take(self, message: Message) -> None:
        """One ASGI message."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = list(message["headers"])
        else:
            self._body += message.get("body", b"")

    def response(self) -> Response:
        """All of it."""
        response = Response(bytes(self._body), status_code=self._status)
        response.raw_headers = self._headers
        return response


def _unread(fault: MemlaneError, request: Request) -> Response:
    """The answer to a body that was not read: an error of the protocol, as clients show nothing else to who called.

    Its id is null, as JSON-RPC wants it where none was read: a client knows which of its requests got this answer.
    """
    response = error_response(fault, request.state.request_id)
    error = protocol_error(fault, request).error.model_dump(mode="json")
    body = encode({"jsonrpc": "2.0", "id": None, "error": error})
    return Response(body, status_code=response.status_code, media_type="application/json")


def _method_of(body: bytes) -> str | None:
    try:
        message: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    method = message.get("method") if isinstance(message, Mapping) else None
    return method if isinstance(method, str) else None
