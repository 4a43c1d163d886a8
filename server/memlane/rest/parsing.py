"""Bodies, query strings, paths and cursors: from bytes to models, with a fault for each bad field."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from memlane.domain.errors import FieldFault, MemoryNotFound, PayloadTooLarge, ValidationFailed

BODY_MAX = 512 * 1024
"""Longest body, in bytes (rest.md)."""
BODY_SECONDS = 4.0
"""Longest wait for a request's body: the caller's slowness is not told as an outage."""
FAULTS_MAX = 50
"""Most faults that one answer lists."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request) -> bytes:
    """The whole body.

    Raises:
        PayloadTooLarge: It is over 512 KiB; told from its length before it is read, else as soon as it is over.
        ValidationFailed: It did not come within 4 s.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:12]) > BODY_MAX:
        raise PayloadTooLarge
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_MAX:
                    raise PayloadTooLarge
    except TimeoutError:
        message = f"did not come whole within {BODY_SECONDS:g} s"
        raise ValidationFailed(f"The body {message}.", [FieldFault("", message)]) from None
    return bytes(body)


async def parse_body(
    request: Request,
    model: type[M],
    *,
    may_be_empty: bool = False,
    before_faults: Callable[[Any], None] = lambda _: None,
) -> M:
    """The body as a model.

    Args:
        request: It.
        model: What the body must be.
        may_be_empty: No body counts as an empty object.
        before_faults: Looks at a decoded body that is not valid; what it raises is told in place of the faults.

    Raises:
        PayloadTooLarge: See `read_body`.
        ValidationFailed: Not JSON, not an object, or a bad field.
    """
    raw = await read_body(request)
    value = {} if may_be_empty and not raw.strip() else _decoded(raw)
    if not isinstance(value, dict):
        raise ValidationFailed("The body must be a JSON object.", [FieldFault("", "must be a JSON object")])
    try:
        return validated(model, value)
    except ValidationFailed:
        before_faults(value)
        raise


def parse_query(request: Request, model: type[M]) -> M:
    """The query string as a model.

    Raises:
        ValidationFailed: An unknown parameter, one that is given twice, or a bad value.
    """
    values: dict[str, str] = {}
    for name, value in () if not raw_query(request) else request.query_params.multi_items():
        if name in values:
            raise ValidationFailed("The query is not valid.", [FieldFault(_shown(name), "is given twice")])
        values[name] = value
    return validated(model, values)


def raw_query(request: Request) -> str:
    """The query string as it was sent. `request.url` would put the whole URL together and take it apart again."""
    query: bytes = request.scope["query_string"]
    return query.decode("latin-1")


def refuse_query(request: Request) -> None:
    """For routes that take no query parameter.

    Raises:
        ValidationFailed: There is one.
    """
    if raw_query(request):
        names = dict.fromkeys(request.query_params.keys()) or {"query": None}
        raise ValidationFailed(
            "The query is not valid.",
            [FieldFault(_shown(name), "is not a parameter of this route") for name in list(names)[:FAULTS_MAX]],
        )


def memory_id_of(request: Request) -> str:
    """The id in the path.

    Raises:
        MemoryNotFound: What stands there is no id: it looks the same as an id that is not there.
    """
    text: str = request.path_params["id"]
    return parse_memory_id(text)


def parse_memory_id(text: str) -> str:
    """An id as it is stored. Raises as `memory_id_of`."""
    if _UUID.fullmatch(text) is None:
        raise MemoryNotFound
    return text.lower()


def encode_cursor(before: tuple[datetime, str]) -> str:
    """An opaque cursor for the page after this row."""
    raw = orjson.dumps([before[0].astimezone(UTC).isoformat(), before[1]])
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[datetime, str]:
    """The row that a cursor stands for.

    Raises:
        ValidationFailed: It is not one of ours.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        at, memory_id = orjson.loads(raw)
        moment = datetime.fromisoformat(at)
        sound = moment.tzinfo is not None and _UUID.fullmatch(memory_id) is not None
        # A forged time with an offset can lie outside of what UTC can say.
        moment = moment.astimezone(UTC)
    except (ValueError, TypeError, binascii.Error, OverflowError):
        sound = False
    if not sound:
        fault = FieldFault("cursor", "must be the nextCursor of a list answer")
        raise ValidationFailed("The query is not valid.", [fault])
    return moment, memory_id


def _decoded(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    # orjson refuses lone surrogates without naming the field. The standard parser lets them through to the
    # model, which names it; what that parser allows beyond JSON is refused here.
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValidationFailed("The body is not valid JSON in UTF-8.", [FieldFault("", "must be JSON")]) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def validated(model: type[M], value: Mapping[str, Any]) -> M:
    """A decoded object as a model.

    Raises:
        ValidationFailed: A bad field; names at most 50 and never quotes them.
    """
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        # Neither the input nor its context is asked for: a fault must not quote what the caller sent.
        errors = fault.errors(include_url=False, include_input=False, include_context=True)
    faults = list(dict.fromkeys(FieldFault(_path(error["loc"]), _reason(error)) for error in errors))[:FAULTS_MAX]
    raise ValidationFailed(f"The request is not valid: {_summary(faults)}.", faults)


def _summary(faults: Sequence[FieldFault]) -> str:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{first.path or 'body'} {first.message}{more}"


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(_shown(part) if isinstance(part, str) else str(part) for part in location)


def _shown(name: str) -> str:
    # An unknown field's name comes from the caller: it is shown, cut and printable.
    return "".join(character if character.isprintable() else "?" for character in name[:64])


_REASONS = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "must be a string",
    "string_unicode": "must not contain a lone surrogate",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} item(s)",
    "too_long": "must have at most {max_length} items",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be one of {expected}",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "nul_character": "must not contain a NUL character",
    "blank_text": "must not be empty or only white space",
}


def _reason(error: ErrorDetails) -> str:
    template = _REASONS.get(error["type"], "is not valid")
    return template.format(**error.get("ctx", {}))
