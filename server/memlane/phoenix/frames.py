"""Text frames of the Phoenix V2 JSON serializer: ``[join_ref, ref, topic, event, payload]``.

`decode` takes whatever a socket hands over and answers with a `Frame` or a `Fault`; it never raises.
Nesting beyond orjson's limit of 1024, numbers beyond a double, lone surrogates and bytes that are not
UTF-8 are malformed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import orjson

from memlane.phoenix.close_codes import CloseCode

MAX_FRAME_BYTES = 64 * 1024
"""Largest frame that is taken, in bytes of UTF-8 (realtime.md)."""
MAX_REF_CHARS = 255
"""Longest ref, in characters: the most that Phoenix's own binary form can carry."""
METADATA_EVENT = "memory_metadata"

Ref: TypeAlias = str | None
Status: TypeAlias = Literal["ok", "error"]

_PARTS: Final = 5
_VSN = re.compile(r"2\.(?:0|[1-9][0-9]{0,8})\.(?:0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Frame:
    """A well-formed message. ``payload`` is any JSON value."""

    join_ref: Ref
    ref: Ref
    topic: str
    event: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a frame was not taken: the code to close with, and a reason that quotes nothing of the frame."""

    code: CloseCode
    reason: str


def accepts_vsn(vsn: str | None) -> bool:
    """Whether the ``vsn`` of an upgrade's query string matches ``~> 2.0``. A missing one means 1.0.0."""
    return vsn is not None and _VSN.fullmatch(vsn) is not None


def decode(text: str | bytes) -> Frame | Fault:
    """Read one text frame.

    Args:
        text: The frame's text, or its bytes in UTF-8. At most 64 KiB.

    Returns:
        The frame, or the fault that ends the connection (1002 or 1009).
    """
    if _size(text) > MAX_FRAME_BYTES:
        return Fault(CloseCode.MESSAGE_TOO_BIG, "frame over 64 KiB")
    try:
        parts = orjson.loads(text)
    except orjson.JSONDecodeError:
        return Fault(CloseCode.PROTOCOL_ERROR, "frame is not JSON")
    if type(parts) is not list or len(parts) != _PARTS:
        return Fault(CloseCode.PROTOCOL_ERROR, "frame is not an array of five")
    join_ref, ref, topic, event, payload = parts
    if not (_is_ref(join_ref) and _is_ref(ref)):
        return Fault(CloseCode.PROTOCOL_ERROR, "a ref is neither null nor a string of at most 255 characters")
    if type(topic) is not str or type(event) is not str:
        return Fault(CloseCode.PROTOCOL_ERROR, "topic and event must be strings")
    return Frame(join_ref, ref, topic, event, payload)


def encode_reply(join_ref: Ref, ref: Ref, topic: str, status: Status, response: Mapping[str, Any]) -> str:
    """A ``phx_reply``.

    Raises:
        TypeError: The response is not JSON (orjson's ``JSONEncodeError``).
    """
    payload = {"status": status, "response": response}
    return orjson.dumps([join_ref, ref, topic, "phx_reply", payload]).decode()


def encode_close(join_ref: Ref, topic: str) -> str:
    """A ``phx_close`` of one join. As in Phoenix its ref repeats the join_ref."""
    return orjson.dumps([join_ref, join_ref, topic, "phx_close", {}]).decode()


def encode_broadcast(topic: str, payload: Mapping[str, Any]) -> bytes:
    """A ``memory_metadata`` push as UTF-8. Its refs are null, so one frame serves every subscriber.

    Raises:
        TypeError: The payload is not JSON (orjson's ``JSONEncodeError``); check it first.
    """
    return orjson.dumps([None, None, topic, METADATA_EVENT, payload])


def _size(text: str | bytes) -> int:
    """Bytes of UTF-8; past the limit the count of characters is enough."""
    if isinstance(text, bytes) or len(text) > MAX_FRAME_BYTES or text.isascii():
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def _is_ref(value: object) -> bool:
    return value is None or (type(value) is str and len(value) <= MAX_REF_CHARS)
