"""HTTP below ASGI: uvicorn's protocol with a bound on the head of a request, in bytes and in time.

httptools takes a head of any length and waits for it for ever, before any credential is known. What cannot be read at
all is answered in the contract's form too.
"""

import asyncio
from typing import Any

import uuid_utils
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memlane.domain.errors import FieldFault, ValidationFailed
from memlane.observability.logs import log
from memlane.rest.errors import error_response

HEAD_BYTES_MAX = 64 * 1024
"""Longest request line and headers. The largest that the contract allows, a user id and three headers of 256 characters
in four bytes each, a grant and a token, is under 8 KiB; proxies add cookies of their own."""
HEAD_SECONDS = 10.0
"""Longest wait for a whole head, from the connection or from the request's first byte on."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._head_bytes = 0
        self._ended = False
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to a head that is not complete."""
        self._ended = False
        super().data_received(data)
        # Where a request has ended within these bytes, most of them were its own.
        if self._in_head and not self._ended and not self.transport.is_closing():
            if self._patience is None:
                self._wait_for_head()
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.refuse(431, f"The request's head is over {HEAD_BYTES_MAX // 1024} KiB.")

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is another request's head."""
        super().on_message_complete()
        self._in_head = self._ended = True

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self.refuse(400, msg)

    def refuse(self, status: int, message: str) -> None:
        """Answer in the contract's form and close; for requests that never reach a route."""
        request_id = uuid_utils.uuid4().hex
        body = error_response(ValidationFailed(message, [FieldFault("", message)]), request_id).body
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\nconnection: close\r\n\r\n"
        )
        self._stop_waiting()
        self.transport.write(head.encode("ascii") + bytes(body))
        self.transport.close()
        log.info("request_refused", status=status, request_id=request_id)

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._patience = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _head_is_late(self) -> None:
        self._patience = None
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            # An answer is under way; the head behind it can wait for that.
            self._wait_for_head()
            return
        self.refuse(408, f"The request's head did not come whole within {HEAD_SECONDS:g} s.")


_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}
