"""Reads the one object that helm sends as protobuf: the Secret that holds a release."""

import base64
from collections.abc import Iterator
from typing import Any

MAGIC = b"k8s\x00"
_METADATA = {1: "name", 3: "namespace", 5: "uid", 6: "resourceVersion"}
_BYTES, _VARINT = 2, 0


def read_secret(raw: bytes) -> dict[str, Any]:
    """A Secret from the wire (k8s.io/api/core/v1/generated.proto): metadata 1, data 2, type 3."""
    envelope = dict(_fields(raw.removeprefix(MAGIC)))
    kind = dict(_fields(envelope[1]))[2].decode()
    if kind != "Secret":
        raise ValueError(f"{kind} as protobuf is not understood")
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {}}
    for number, value in _fields(envelope[2]):
        if number == 1:
            secret["metadata"] = _metadata(value)
        elif number == 2:
            key, content = _pair(value)
            secret["data"][key.decode()] = base64.b64encode(content).decode()
        elif number == 3:
            secret["type"] = value.decode()
    return secret


def _metadata(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(raw):
        if number in _METADATA and value:
            found[_METADATA[number]] = value.decode()
        elif number in {11, 12}:
            key, content = _pair(value)
            found.setdefault("labels" if number == 11 else "annotations", {})[key.decode()] = content.decode()
    return found


def _pair(raw: bytes) -> tuple[bytes, bytes]:
    entry = dict(_fields(raw))
    return entry.get(1, b""), entry.get(2, b"")


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that are bytes; numbers are passed over."""
    place = 0
    while place < len(raw):
        tag, place = _varint(raw, place)
        if tag & 7 == _VARINT:
            _, place = _varint(raw, place)
        elif tag & 7 == _BYTES:
            length, place = _varint(raw, place)
            yield tag >> 3, raw[place : place + length]
            place += length
        else:
            raise ValueError(f"wire type {tag & 7}")


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
