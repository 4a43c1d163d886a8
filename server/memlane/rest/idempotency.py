"""The Idempotency-Key header."""

from starlette.requests import Request

from memlane.domain.errors import FieldFault, ValidationFailed
from memlane.domain.hashing import request_sha256
from memlane.rest.credentials import header_text
from memlane.rest.models import Request as Body
from memlane.usecases.ports import Idempotency

HEADER = "Idempotency-Key"
KEY_MAX = 128
"""Longest idempotency key, in characters (rest.md)."""


def idempotency_of(request: Request, body: Body) -> Idempotency | None:
    """The key and what it stands for: method, path and the body's meaning, however they were written.

    Raises:
        ValidationFailed: Longer than 128 characters, empty, not printable, or given twice.
    """
    values = request.headers.getlist(HEADER)
    if not values:
        return None
    key = header_text(values[0]).strip()
    if len(values) > 1 or not 1 <= len(key) <= KEY_MAX or not key.isprintable():
        message = f"must be given once and have 1 to {KEY_MAX} printable characters"
        raise ValidationFailed(f"The header {HEADER} {message}.", [FieldFault(HEADER, message)])
    return Idempotency(key, request_sha256(request.method, request.url.path.lower(), body.model_dump_json()))
