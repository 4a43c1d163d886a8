"""The socket's own bytes, below ASGI.

uvicorn speaks the handshake, control frames and the closing; a data frame is written past it, straight to the
transport: an unmasked server frame is the same for every client, so a broadcast is encoded once and costs one
``write`` a socket. The transport's buffer is the socket's queue: bounded in bytes by the hub, which asks for
its size before each frame.
"""

from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

from memlane.observability.logs import log
from memlane.phoenix.close_codes import CloseCode

EXTENSION = "memlane.wire"
"""Where the ASGI scope carries the wire."""
DRAINED_BYTES = 64 * 1024
"""A socket counts as drained when less than this is left in its buffer."""
PAUSE_BYTES = 256 * 1024
"""From here on the transport says when it has drained again."""
CLOSE_SECONDS = 5.0
"""How long a closed socket may take to flush and answer before it is cut."""


def text_frame(data: bytes) -> bytes:
    """A whole text frame as a server sends it, ready to be written to any number of sockets."""
    return Frame(Opcode.TEXT, data).serialize(mask=False)


def _is_utf8(parts: Sequence[bytes]) -> bool:
    try:
        b"".join(parts).decode()
    except UnicodeDecodeError:
        return False
    return True


class Wire:
    """One socket. No method waits or raises; after a close or a loss, writes go nowhere."""

    __slots__ = ("_protocol", "on_drained")

    def __init__(self, protocol: "StreamSocketProtocol") -> None:
        self._protocol = protocol
        self.on_drained: Callable[[], None] | None = None

    def write(self, frame: bytes) -> None:
        """Hand a frame to the transport."""
        protocol = self._protocol
        if not protocol.close_sent and not protocol.disconnected:
            protocol.transport.write(frame)

    def buffered(self) -> int:
        """Bytes that were written and not yet sent."""
        return self._protocol.transport.get_write_buffer_size()

    def close(self, code: int, reason: str) -> None:
        """Send a close frame; a peer that does not answer within 5 s is cut."""
        self._protocol.close_now(code, reason)

    def abort(self) -> None:
        """Cut the connection."""
        self._protocol.transport.abort()


class StreamSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which also hands its wire to the application."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.wire = Wire(self)

    def connection_made(self, transport: Any) -> None:
        """Set the marks of the socket's buffer."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PAUSE_BYTES, low=DRAINED_BYTES)

    def data_received(self, data: bytes) -> None:
        """Answer an upgrade whose head the library refuses; uvicorn would leave it without an answer for ever."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
            log.info("upgrade_refused", reason="head_too_large", status=403)

    def handle_connect(self, event: Any) -> None:
        """Hand over the wire with the upgrade."""
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][EXTENSION] = self.wire

    async def send(self, message: Any) -> None:
        """Note that an answer in place of the upgrade is complete; uvicorn would log each as an error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def resume_writing(self) -> None:
        """The buffer has drained."""
        super().resume_writing()
        if self.wire.on_drained is not None:
            self.wire.on_drained()

    def send_receive_event_to_app(self) -> None:
        """Hand over a message. Text that is not UTF-8 closes the socket; uvicorn would log a trace for each."""
        if self.curr_msg_data_type == "text" and not _is_utf8(self.frames):
            self.frames = []
            self.close_now(CloseCode.PROTOCOL_ERROR, "the text is not UTF-8")
            return
        super().send_receive_event_to_app()

    def close_now(self, code: int, reason: str) -> None:
        """Close without waiting for the application's task, which then sees a disconnect."""
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # abort and not close: close would wait for ever for a peer that has stopped reading.
        self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)
