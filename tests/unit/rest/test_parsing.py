import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from starlette.requests import Request

from memlane.domain.errors import MemoryNotFound, PayloadTooLarge, ValidationFailed
from memlane.rest.models import Empty, ListQuery, MemoryDraft
from memlane.rest.parsing import (
    BODY_MAX,
    decode_cursor,
    encode_cursor,
    memory_id_of,
    parse_body,
    parse_query,
    read_body,
    refuse_query,
)

ID = "01890000-0000-7000-8000-0000000000ab"
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Chunks:
    """A body in parts; knows how many were asked for."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)
        self.asked = 0

    async def __call__(self) -> dict[str, Any]:
        self.asked += 1
        part = self._parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self._parts)}


def request(
    receive: Receive | None = None,
    *,
    query: bytes = b"",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    path_params: dict[str, str] | None = None,
) -> Request:
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": query,
        "headers": list(headers),
        "path_params": path_params or {},
    }
    return Request(scope, receive or Chunks(b""))  # type: ignore[arg-type]


def parsed(raw: bytes, model: Any = MemoryDraft, **options: Any) -> Any:
    return asyncio.run(parse_body(request(Chunks(raw)), model, **options))


# --- Reading


async def test_a_body_in_parts_is_put_together() -> None:
    assert await read_body(request(Chunks(b"a", b"", b"bc"))) == b"abc"


async def test_an_announced_length_over_the_limit_reads_no_part() -> None:
    parts = Chunks(b"a")
    length = str(BODY_MAX + 1).encode()
    with pytest.raises(PayloadTooLarge):
        await read_body(request(parts, headers=((b"content-length", length),)))
    assert parts.asked == 0


async def test_reading_stops_with_the_part_that_is_too_much() -> None:
    parts = Chunks(b"a" * BODY_MAX, b"a", b"never", b"")
    with pytest.raises(PayloadTooLarge):
        await read_body(request(parts))
    assert parts.asked == 2


async def test_a_length_that_lies_does_not_lift_the_limit() -> None:
    with pytest.raises(PayloadTooLarge):
        await read_body(request(Chunks(b"a" * (BODY_MAX + 1)), headers=((b"content-length", b"5"),)))


# --- Bodies


def test_a_sound_body_becomes_the_model() -> None:
    draft = parsed(b'{"content":"tea","kind":"topical"}')
    assert (draft.content, draft.kind, draft.scope, draft.sourceThreadIds) == ("tea", "topical", "user", [])


def test_an_empty_body_is_an_empty_object_only_where_it_may_be() -> None:
    assert parsed(b" ", Empty, may_be_empty=True) == Empty()
    with pytest.raises(ValidationFailed):
        parsed(b"", Empty)


@given(st.binary(max_size=60))
def test_rubbish_is_never_more_than_a_validation_error(raw: bytes) -> None:
    with pytest.raises(ValidationFailed):
        parsed(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(exclude_categories=[]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["content", "kind", "x"]), inner),
    max_leaves=8,
)


@given(JSON)
def test_any_json_is_a_model_or_a_validation_error(value: Any) -> None:
    try:
        draft = parsed(json.dumps(value).encode())
    except ValidationFailed as fault:
        assert fault.details  # noqa: PT017 - each outcome is right, and each is looked at
    else:
        assert draft.model_dump(exclude_unset=True) == value


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50))
def test_a_text_comes_through_as_it_is_however_it_is_escaped(text: str) -> None:
    if not text.strip():
        return
    body = {"content": text, "kind": "topical"}
    for raw in (json.dumps(body), json.dumps(body, ensure_ascii=False)):
        assert parsed(raw.encode()).content == text


def test_a_fault_never_quotes_the_value() -> None:
    with pytest.raises(ValidationFailed) as caught:
        parsed(b'{"content":5551234,"kind":"heliotrope","scope":["heliotrope"]}')
    told = caught.value.message + str(caught.value.details)
    assert "heliotrope" not in told
    assert "5551234" not in told


def test_the_message_names_the_first_fault_and_counts_the_others() -> None:
    with pytest.raises(ValidationFailed, match=r"^The request is not valid: content is required \(and 1 more\)\.$"):
        parsed(b"{}")


# --- Query strings


def test_a_query_becomes_the_model() -> None:
    query = parse_query(request(query=b"limit=7&includeInvalidated=true"), ListQuery)
    assert (query.limit, query.includeInvalidated, query.cursor) == (7, "true", None)


def test_a_query_of_nothing_has_the_defaults() -> None:
    assert parse_query(request(), ListQuery).limit == 2000


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse_query(request(query=b"limit=7&limit=7"), ListQuery)
    assert [(fault.path, fault.message) for fault in caught.value.details] == [("limit", "is given twice")]


@pytest.mark.parametrize(("query", "paths"), [(b"a=1&b=2", ["a", "b"]), (b"a", ["a"]), (b"&", ["query"])])
def test_a_route_without_parameters_names_what_it_refuses(query: bytes, paths: list[str]) -> None:
    with pytest.raises(ValidationFailed) as caught:
        refuse_query(request(query=query))
    assert [fault.path for fault in caught.value.details] == paths


def test_a_route_without_parameters_takes_none() -> None:
    refuse_query(request())


# --- Ids and cursors


def test_an_id_is_read_in_lower_case() -> None:
    assert memory_id_of(request(path_params={"id": ID.upper()})) == ID


@pytest.mark.parametrize("text", ["", "1", ID[:-1], ID + "0", ID + "\n", ID.replace("-", ""), "{" + ID + "}", "é" * 36])
def test_anything_else_is_an_id_that_is_not_there(text: str) -> None:
    with pytest.raises(MemoryNotFound):
        memory_id_of(request(path_params={"id": text}))


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_comes_back_as_it_was(at: datetime, memory_id: Any) -> None:
    assert decode_cursor(encode_cursor((at, str(memory_id)))) == (at, str(memory_id))


def test_a_cursor_is_fit_for_a_url_and_for_its_limit() -> None:
    cursor = encode_cursor((datetime(2026, 1, 1, 1, 1, 1, 999999, tzinfo=timezone(timedelta(hours=5))), ID))
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert len(cursor) <= 256


@given(st.text(max_size=80))
def test_any_other_cursor_is_a_validation_error(cursor: str) -> None:
    with pytest.raises(ValidationFailed):
        decode_cursor(cursor)
