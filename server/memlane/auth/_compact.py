"""Reading a compact JWS (`header.payload.signature`) that anyone may have sent. It never raises."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jwt import PyJWS
from jwt.exceptions import PyJWTError

_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
LATEST_SECOND: Final = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second that a datetime can hold."""


def read_header(token: str, *, max_length: int) -> dict[str, object] | None:
    """The unverified header, or None where the token is too long or not of the compact form."""
    if len(token) > max_length or _COMPACT.fullmatch(token) is None:
        return None
    segment = token.partition(".")[0]
    try:
        return read_object(urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except ValueError:
        return None


def read_object(data: bytes) -> dict[str, object] | None:
    """The JSON object, or None. Refuses a name given twice, NaN and infinity, which readers disagree on."""
    try:
        value = json.loads(data, object_pairs_hook=_without_repeats, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def verified_payload(
    jws: PyJWS, token: str, keys: Sequence[bytes | Ed25519PublicKey], *, algorithm: str
) -> bytes | None:
    """The payload if one of ``keys`` signed it by ``algorithm``, else None.

    Args:
        jws: A PyJWS that knows no other algorithm than the pinned one.
        token: A token that `read_header` accepted.
        keys: The keys to try, in order.
        algorithm: The pinned algorithm; a token that names another one is not verified.
    """
    for key in keys:
        try:
            payload: bytes = jws.decode_complete(token, key=key, algorithms=[algorithm])["payload"]
        except (PyJWTError, ValueError, RecursionError):
            continue
        return payload
    return None


def as_second(value: object) -> int | None:
    """A whole number of seconds since 1970 that a datetime can hold, or None. A boolean is no number."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LATEST_SECOND else None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name is given twice")
    return names


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
