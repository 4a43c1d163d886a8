"""The runtime tuple: bearer key, user id, grant, and what the caller says of a write's origin."""

import re

from starlette.requests import Request

from memlane.auth.runtime_keys import parse_authorization
from memlane.domain.caller import UNKNOWN, Caller, KeyRecord, Provenance
from memlane.domain.errors import FieldFault, Unauthenticated, ValidationFailed
from memlane.domain.grant import GRANT_HEADER, parse_grant_header
from memlane.usecases.authenticate import Gate

USER_HEADER = "X-Cpki-User-Id"
USER_ID_MAX = 256
"""Longest user id, in characters (rest.md)."""
PROVENANCE_MAX = 256
"""Longest run, source id and trigger, in characters."""
SOURCE_MAX = 64 + len(":") + PROVENANCE_MAX
"""Longest ``<type>:<id>``, in characters."""
_SOURCE = re.compile(r"([\w.-]{1,64}):(\S.{0,255})")


async def key_of(request: Request, gate: Gate) -> KeyRecord:
    """The request's runtime key.

    Raises:
        Unauthenticated: None, two, or none that is usable.
        StorageUnavailable: It cannot be told now.
    """
    values = request.headers.getlist("authorization")
    token = parse_authorization(values[0]) if len(values) == 1 else None
    if token is None:
        raise Unauthenticated
    key = await gate.authenticate(token.short, token.hash(), token.project)
    request.state.key_id = key.short
    return key


async def caller_of(request: Request, gate: Gate) -> Caller:
    """Who calls: key (401), entitlement (404, 503), then user id and grant syntax (400), in that order.

    Raises:
        Unauthenticated, NotEntitled, EntitlementUnresolved, StorageUnavailable, ValidationFailed: As said.
    """
    key = await key_of(request, gate)
    await gate.require_memory(key)
    user_id = _user_id(request)
    grant = key.grant
    sent = request.headers.getlist(GRANT_HEADER)
    if len(sent) > 1:
        raise _bad_header(GRANT_HEADER, "is given twice")
    if sent:
        grant = grant.narrowed_by(parse_grant_header(sent[0]))
    return Caller(
        key=key,
        user_id=user_id,
        grant=grant,
        request_id=request.state.request_id,
        provenance=_provenance(request),
    )


def _user_id(request: Request) -> str:
    values = request.headers.getlist(USER_HEADER)
    if len(values) > 1:
        raise _bad_header(USER_HEADER, "is given twice")
    text = _text(values[0]).strip() if values else ""
    if not 1 <= len(text) <= USER_ID_MAX:
        raise _bad_header(USER_HEADER, f"must have 1 to {USER_ID_MAX} characters")
    if "\0" in text:
        raise _bad_header(USER_HEADER, "must not contain a NUL character")
    return text


def _text(value: str) -> str:
    """Header bytes are UTF-8, or else Latin-1; Starlette hands them over as Latin-1."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def _provenance(request: Request) -> Provenance:
    source = _optional(request, "X-Memlane-Source", SOURCE_MAX)
    source_type, source_id = UNKNOWN, UNKNOWN
    if source is not None:
        match = _SOURCE.fullmatch(source)
        if match is None:
            raise _bad_header("X-Memlane-Source", "must be <type>:<id>, the type of at most 64 letters, digits, . _ -")
        source_type, source_id = match[1], match[2]
    return Provenance(
        run=_optional(request, "X-Memlane-Run") or UNKNOWN,
        source_type=source_type,
        source_id=source_id,
        triggered_by=_optional(request, "X-Memlane-Triggered-By") or UNKNOWN,
    )


def _optional(request: Request, name: str, longest: int = PROVENANCE_MAX) -> str | None:
    value = request.headers.get(name)
    if value is None:
        return None
    text = _text(value).strip()
    if len(text) > longest or "\0" in text:
        raise _bad_header(name, f"must have at most {longest} characters and no NUL")
    return text or None


def _bad_header(name: str, message: str) -> ValidationFailed:
    return ValidationFailed(f"The header {name} {message}.", [FieldFault(name, message)])
