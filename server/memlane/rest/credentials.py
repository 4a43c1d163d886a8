"""The runtime tuple: bearer key, user id, grant, and what the caller says of a write's origin."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from memlane.auth.runtime_keys import parse_authorization
from memlane.domain.caller import UNKNOWN, Caller, KeyRecord, Provenance
from memlane.domain.errors import FieldFault, Unauthenticated, ValidationFailed
from memlane.domain.grant import GRANT_HEADER, Access, parse_grant_header
from memlane.usecases.authenticate import Gate

USER_HEADER = "X-Cpki-User-Id"
USER_ID_MAX = 256
"""Longest user id, in characters (rest.md)."""
PROVENANCE_MAX = 256
"""Longest run, source id and trigger, in characters."""
SOURCE_MAX = 64 + len(":") + PROVENANCE_MAX
"""Longest ``<type>:<id>``, in characters."""
HEADER_NAMES = ("X-Memlane-Run", "X-Memlane-Source", "X-Memlane-Triggered-By")
META_NAMES = ("memlane/run", "memlane/source", "memlane/triggeredBy")
_READ = {name.lower().encode(): name for name in (USER_HEADER, GRANT_HEADER, *HEADER_NAMES)}
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
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


async def caller_of(request: Request, gate: Gate, *, user_optional: bool = False, writes: int = 0) -> Caller:
    """Who calls: key (401), entitlement (404, 503), user id and grant syntax (400), then the rate (429), in that order.

    Args:
        request: It.
        gate: Decides on key and entitlement.
        user_optional: A call whose grant reaches no user's memories may name no user.
        writes: How many writes the call is, for its lane's rate.

    Raises:
        Unauthenticated, NotEntitled, EntitlementUnresolved, StorageUnavailable, ValidationFailed, RateLimited: As said.
    """
    key = await key_of(request, gate)
    await gate.require_memory(key)
    sent = _sent(request)
    users, grants = sent[USER_HEADER], sent[GRANT_HEADER]
    user_id = "" if user_optional and not users else _user_id(users)
    grant = key.grant
    if len(grants) > 1:
        raise _bad_header(GRANT_HEADER, "is given twice")
    if grants:
        grant = grant.narrowed_by(parse_grant_header(grants[0]))
    if not user_id and grant.user is not Access.NONE:
        _user_id(users)
    caller = Caller(
        key=key,
        user_id=user_id,
        grant=grant,
        request_id=request.state.request_id,
        provenance=_provenance({name: header_text(sent[name][0]) if sent[name] else None for name in HEADER_NAMES}),
    )
    await gate.require_rate(caller, writes=writes)
    return caller


def _sent(request: Request) -> dict[str, list[str]]:
    """The values of each header of the tuple, in one pass: `request.headers` takes one for each look-up."""
    sent: dict[str, list[str]] = {name: [] for name in _READ.values()}
    for raw, value in request.scope["headers"]:
        name = _READ.get(raw)
        if name is not None:
            sent[name].append(value.decode("latin-1"))
    return sent


def _user_id(values: list[str]) -> str:
    if len(values) > 1:
        raise _bad_header(USER_HEADER, "is given twice")
    text = header_text(values[0]).strip() if values else ""
    if not 1 <= len(text) <= USER_ID_MAX:
        raise _bad_header(USER_HEADER, f"must have 1 to {USER_ID_MAX} characters")
    if "\0" in text:
        raise _bad_header(USER_HEADER, "must not contain a NUL character")
    return text


def header_text(value: str) -> str:
    """Header bytes are UTF-8, or else Latin-1; Starlette hands them over as Latin-1."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def provenance_of_meta(meta: Mapping[str, Any], headers: Provenance) -> Provenance:
    """What an MCP call's `_meta` says of its origin; what it leaves out is taken from the headers.

    Args:
        meta: May hold `memlane/run`, `memlane/source` (``<type>:<id>``) and `memlane/triggeredBy`; no other key
            counts, trust least of all.
        headers: What the headers say.

    Raises:
        ValidationFailed: One of these is no text, too long, or not of that form.
    """
    sent = {name: _meta_text(meta, name) for name in META_NAMES}
    said = _provenance(sent)
    run, source, triggered_by = META_NAMES
    overruled = {header for header, name in zip(HEADER_NAMES, META_NAMES, strict=True) if sent[name] is not None}
    return Provenance(
        run=headers.run if sent[run] is None else said.run,
        source_type=headers.source_type if sent[source] is None else said.source_type,
        source_id=headers.source_id if sent[source] is None else said.source_id,
        triggered_by=headers.triggered_by if sent[triggered_by] is None else said.triggered_by,
        sent=(*(one for one in headers.sent if one[0] not in overruled), *said.sent),
    )


def _meta_text(meta: Mapping[str, Any], name: str) -> str | None:
    value = meta.get(name)
    if value is not None and not isinstance(value, str):
        raise _bad(name, "must be a string")
    return value


def _provenance(sent: Mapping[str, str | None]) -> Provenance:
    """From the three texts in order: run, source, trigger."""
    run, source, triggered_by = sent
    source_text = _optional(source, sent[source], SOURCE_MAX)
    source_type, source_id = UNKNOWN, UNKNOWN
    if source_text is not None:
        match = _SOURCE.fullmatch(source_text)
        if match is None:
            raise _bad(source, "must be <type>:<id>, the type of at most 64 letters, digits, . _ -")
        source_type, source_id = match[1], match[2]
    return Provenance(
        run=_optional(run, sent[run]) or UNKNOWN,
        source_type=source_type,
        source_id=source_id,
        triggered_by=_optional(triggered_by, sent[triggered_by]) or UNKNOWN,
        sent=tuple((name, text) for name, text in sent.items() if text and text.strip()),
    )


def _optional(name: str, value: str | None, longest: int = PROVENANCE_MAX) -> str | None:
    text = "" if value is None else value.strip()
    if len(text) > longest or _UNSTORABLE.search(text):
        raise _bad(name, f"must have at most {longest} characters, no NUL and no lone surrogate")
    return text or None


def _bad_header(name: str, message: str) -> ValidationFailed:
    return _bad(name, message, "The header ")


def _bad(name: str, message: str, what: str = "") -> ValidationFailed:
    return ValidationFailed(f"{what}{name} {message}.", [FieldFault(name, message)])
