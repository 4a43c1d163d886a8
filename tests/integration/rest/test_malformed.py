"""Requests that are wrong: what the caller is told, and what is never told."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from integration.rest.house import NO_SUCH_ID, Shop, error_of, faults_of
from integration.rest.routes import GUARDED, KEYED, MATRIX, ROUTES, WITH_BODY
from memlane.rest import http_protocol, parsing

LIMIT = 512 * 1024


async def send(shop: Shop, me: dict[str, Any], body: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
    return await shop.client.post("/api/memories", headers={**me, **headers}, content=body)


# --- Bodies


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"  ", id="white space"),
        pytest.param(b"tea", id="a word"),
        pytest.param(b"{", id="half an object"),
        pytest.param(b'{"content":"tea","kind":"topical"', id="an object without its end"),
        pytest.param(b'{"content":"tea","kind":"topical"}{}', id="two objects"),
        pytest.param(b"{'content':'tea','kind':'topical'}", id="single quotes"),
        pytest.param(b'{"content":"tea","kind":"topical",}', id="a comma too many"),
        pytest.param(b'{"content":"a\nb","kind":"topical"}', id="a bare line break in a string"),
        pytest.param(b'\xef\xbb\xbf{"content":"tea","kind":"topical"}', id="a byte order mark"),
        pytest.param('{"content":"tea","kind":"topical"}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b"content=tea&kind=topical", id="a form"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b'[{"content":"tea","kind":"topical"}]', id="an array of objects"),
        pytest.param(b'"tea"', id="a string"),
        pytest.param(b"null", id="null"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"[" * 100_000, id="100,000 open brackets"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="100,000 nested arrays"),
        pytest.param(b'{"content":' * 40_000 + b"1" + b"}" * 40_000, id="40,000 nested objects"),
        pytest.param(b'{"content":"tea","kind":"topical","x":' + b"9" * 5000 + b"}", id="a number of 5,000 digits"),
        pytest.param(b'{"content":"tea","kind":"topical","x":NaN}', id="NaN in an unknown field"),
    ],
)
async def test_a_body_that_is_no_json_object_is_400(shop: Shop, me: dict[str, Any], body: bytes) -> None:
    assert error_of(await send(shop, me, body)) == (400, "MEMORY_VALIDATION_ERROR")
    assert await shop.listed(me) == []


async def test_of_a_key_that_is_given_twice_the_last_one_counts(shop: Shop, me: dict[str, Any]) -> None:
    answer = await send(shop, me, b'{"content":"tea","content":"coffee","kind":"topical"}')
    assert answer.json()["content"] == "coffee"


async def test_the_content_type_is_not_asked_for(shop: Shop, me: dict[str, Any]) -> None:
    answer = await send(shop, me, b'{"content":"tea","kind":"topical"}', **{"Content-Type": "text/plain"})
    assert answer.status_code == 201


DRAFT = {"content": "Likes tea.", "kind": "topical"}


@pytest.mark.parametrize(
    ("path", "body", "faults"),
    [
        ("", {}, {"content": "is required", "kind": "is required"}),
        ("", {"content": "tea"}, {"kind": "is required"}),
        ("", {**DRAFT, "team": 1}, {"team": "is not a known field"}),
        ("", {**DRAFT, "id": NO_SUCH_ID}, {"id": "is not a known field"}),
        ("", {**DRAFT, "source_thread_ids": []}, {"source_thread_ids": "is not a known field"}),
        ("", {**DRAFT, "content": 5}, {"content": "must be a string"}),
        ("", {**DRAFT, "content": None}, {"content": "must be a string"}),
        ("", {**DRAFT, "content": ["tea"]}, {"content": "must be a string"}),
        ("", {**DRAFT, "kind": "TOPICAL"}, {"kind": "must be one of 'topical', 'episodic' or 'operational'"}),
        ("", {**DRAFT, "kind": None}, {"kind": "must be one of 'topical', 'episodic' or 'operational'"}),
        ("", {**DRAFT, "scope": "team"}, {"scope": "must be one of 'user' or 'project'"}),
        ("", {**DRAFT, "scope": None}, {"scope": "must be one of 'user' or 'project'"}),
        ("/batch", {"memories": []}, {"memories": "must have at least 1 item(s)"}),
        ("/batch", {"memories": [DRAFT] * 101}, {"memories": "must have at most 100 items"}),
        ("/batch", {"memories": DRAFT}, {"memories": "must be a list"}),
        ("/batch", {"memories": [DRAFT, 7]}, {"memories.1": "must be an object"}),
        ("/batch", {"memories": [DRAFT, {**DRAFT, "x": 1}]}, {"memories.1.x": "is not a known field"}),
        ("/recall", {}, {"query": "is required"}),
        ("/recall", {"query": "tea", "limit": True}, {"limit": "must be a whole number"}),
        ("/recall", {"query": "tea", "limit": "5"}, {"limit": "must be a whole number"}),
        ("/recall", {"query": "tea", "limit": 5.0}, {"limit": "must be a whole number"}),
        ("/recall", {"query": "tea", "limit": None}, {"limit": "must be a whole number"}),
        ("/recall", {"query": "tea", "limit": 0}, {"limit": "must be at least 1"}),
        ("/recall", {"query": "tea", "limit": 21}, {"limit": "must be at most 20"}),
        ("/recall", {"query": "tea", "limit": 10**30}, {"limit": "must be a whole number"}),
        ("/recall", {"query": "tea", "minScore": True}, {"minScore": "must be a number"}),
        ("/recall", {"query": "tea", "minScore": "0.5"}, {"minScore": "must be a number"}),
        ("/recall", {"query": "tea", "minScore": -0.1}, {"minScore": "must be at least 0"}),
        ("/recall", {"query": "tea", "minScore": 1.1}, {"minScore": "must be at most 1"}),
        ("/recall", {"query": "tea", "strict": 1}, {"strict": "must be true or false"}),
        ("/recall", {"query": "tea", "strict": "true"}, {"strict": "must be true or false"}),
        ("/recall", {"query": "tea", "scope": "all"}, {"scope": "must be one of 'user' or 'project'"}),
        ("/subscribe", {"user": "u2"}, {"user": "is not a known field"}),
    ],
    ids=str,
)
async def test_each_bad_field_is_named_with_what_is_wrong(
    shop: Shop, me: dict[str, Any], path: str, body: Any, faults: dict[str, str]
) -> None:
    answer = await shop.post(me, body, f"/api/memories{path}")
    assert faults_of(answer) == faults


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
async def test_a_number_that_is_none_is_400(shop: Shop, me: dict[str, Any], number: str) -> None:
    body = f'{{"query":"tea","minScore":{number}}}'.encode()
    answer = await shop.client.post("/api/memories/recall", headers=me, content=body)
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR")


async def test_all_bad_fields_are_told_at_once(shop: Shop, me: dict[str, Any]) -> None:
    answer = await shop.post(me, {"content": 1, "kind": "x", "scope": "x", "sourceThreadIds": 1, "more": 1})
    assert set(faults_of(answer)) == {"content", "kind", "scope", "sourceThreadIds", "more"}


async def test_a_flood_of_bad_fields_is_cut_to_50(shop: Shop, me: dict[str, Any]) -> None:
    answer = await shop.post(me, {**DRAFT, **{f"x{number}": 1 for number in range(5000)}})
    assert len(faults_of(answer)) == 50


async def test_a_long_or_unprintable_field_name_is_shown_cut_and_clean(shop: Shop, me: dict[str, Any]) -> None:
    answer = await shop.post(me, {**DRAFT, "\x1b[31m" + "x" * 1000: 1})
    (name,) = faults_of(answer)
    assert name == "?[31m" + "x" * 59


# --- Query strings


@pytest.mark.parametrize(
    "query",
    ["?x=1", "?limit", "?limit=", "?x", "?=", "?LIMIT=1", "?limit=1&limit=2", "?%00=1", "?%ff=%ff", "?include=1"],
)
async def test_a_query_parameter_that_is_unknown_empty_or_given_twice_is_400(
    shop: Shop, me: dict[str, Any], query: str
) -> None:
    answer = await shop.client.get(f"/api/memories{query}", headers=me)
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR")


@pytest.mark.parametrize("route", [route for route in MATRIX if route != ("GET", "/api/memories")], ids=" ".join)
async def test_the_other_routes_take_no_query_parameter(shop: Shop, me: dict[str, Any], route: tuple[str, str]) -> None:
    method, path = route
    url = path.replace("{id}", NO_SUCH_ID) + "?limit=1"
    answer = await shop.client.request(method, url, headers=me, json=MATRIX[route].body)
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR")


async def test_a_lone_question_mark_is_no_parameter(shop: Shop, me: dict[str, Any]) -> None:
    assert (await shop.client.get("/api/memories?", headers=me)).status_code == 200


# --- Size


def padded(size: int) -> bytes:
    body = b'{"content":"Likes tea.","kind":"topical"}'
    return body + b" " * (size - len(body))


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 60_000):
        yield body[start : start + 60_000]


async def test_a_body_of_exactly_512_kib_is_taken(shop: Shop, me: dict[str, Any]) -> None:
    assert (await send(shop, me, padded(LIMIT))).status_code == 201


async def test_a_chunked_body_of_exactly_512_kib_is_taken(shop: Shop, me: dict[str, Any]) -> None:
    assert (await send(shop, me, chunks(padded(LIMIT)))).status_code == 201


async def test_a_body_over_512_kib_is_413(shop: Shop, me: dict[str, Any]) -> None:
    assert error_of(await send(shop, me, padded(LIMIT + 1))) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_chunked_body_over_512_kib_is_413(shop: Shop, me: dict[str, Any]) -> None:
    assert error_of(await send(shop, me, chunks(padded(LIMIT + 1)))) == (413, "PAYLOAD_TOO_LARGE")


async def raw_answer(shop: Shop, request: bytes) -> tuple[int, bytes]:
    """Send bytes and read one answer, without ever ending the request."""
    url = httpx.URL(shop.service.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        writer.write(request)
        async with asyncio.timeout(5):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            return int(head.split()[1]), await reader.readexactly(length)
    finally:
        writer.transport.abort()


def raw_head(me: dict[str, Any], *more: str) -> bytes:
    lines = ["POST /api/memories HTTP/1.1", "Host: test", f"Authorization: {me['Authorization']}", "X-Cpki-User-Id: u1"]
    return "\r\n".join([*lines, *more, "", ""]).encode()


async def test_an_announced_length_over_the_limit_is_refused_before_any_of_it_is_read(
    shop: Shop, me: dict[str, Any]
) -> None:
    status, body = await raw_answer(shop, raw_head(me, "Content-Length: 10000000000"))
    assert (status, json.loads(body)["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_chunked_body_is_refused_as_soon_as_it_is_over_the_limit(shop: Shop, me: dict[str, Any]) -> None:
    endless = f"{LIMIT + 1:x}\r\n".encode() + b" " * (LIMIT + 1)
    status, body = await raw_answer(shop, raw_head(me, "Transfer-Encoding: chunked") + endless)
    assert (status, json.loads(body)["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("route", WITH_BODY, ids=" ".join)
async def test_every_route_with_a_body_has_the_limit(shop: Shop, me: dict[str, Any], route: tuple[str, str]) -> None:
    method, path = route
    url = path.replace("{id}", NO_SUCH_ID)
    answer = await shop.client.request(method, url, headers=me, content=b" " * (LIMIT + 1))
    assert error_of(answer) == (413, "PAYLOAD_TOO_LARGE")


async def test_an_unkeyed_callers_body_is_not_looked_at(shop: Shop) -> None:
    status, _ = await raw_answer(shop, raw_head({"Authorization": "Bearer x"}, "Content-Length: 10000000000"))
    assert status == 401


# --- Methods and routes


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")


@pytest.mark.parametrize("path", sorted({path for _, path in ROUTES}))
async def test_a_wrong_method_is_405_with_what_is_allowed(shop: Shop, me: dict[str, Any], path: str) -> None:
    allowed = sorted(method for method, other in ROUTES if other == path)
    for method in METHODS:
        if method not in allowed:
            answer = await shop.client.request(method, path.replace("{id}", NO_SUCH_ID), headers=me)
            assert error_of(answer) == (405, "METHOD_NOT_ALLOWED")
            with_head = sorted({*allowed, "HEAD"} if "GET" in allowed else allowed)
            assert answer.headers["allow"].split(", ") == with_head


async def test_head_answers_like_get_without_a_body(shop: Shop, me: dict[str, Any]) -> None:
    answer = await shop.client.head("/api/memories", headers=me)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/api", "/api/", "/api/memories/", "/api/Memories", "//api/memories", f"/api/memories/{NO_SUCH_ID}/",
        f"/api/memories/{NO_SUCH_ID}/history", "/api/memories/a/b/c", "/metrics", "/favicon.ico", "/api/docs/",
        "/api/entitlements", "/%00", "/%ff", "/api/memories%2frecall%2f", "/..", "/api/../api/live/x",
    ],
)  # fmt: skip
async def test_an_unknown_route_is_404_with_or_without_a_key(shop: Shop, me: dict[str, Any], path: str) -> None:
    for headers in (me, {}):
        answer = await shop.client.get(path, headers=headers)
        assert error_of(answer) == (404, "NOT_FOUND")


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "x/y?z=1", "x#y", "é".encode(), ":::", "host:port", ""])
async def test_a_strange_host_header_changes_nothing(shop: Shop, me: dict[str, Any], host: str | bytes) -> None:
    answer = await shop.client.get("/api/memories?limit=5", headers={**me, "Host": host})
    assert answer.status_code == 200
    answer = await shop.client.post("/api/memories", headers={**me, "Host": host}, json=DRAFT)
    assert answer.status_code == 201


# --- The error's form


async def test_every_error_has_the_form_of_the_contract(shop: Shop, me: dict[str, Any]) -> None:
    answer = await shop.post(me, {})
    error = answer.json()["error"]
    assert answer.json().keys() == {"error"}
    assert error.keys() == {"code", "message", "requestId", "details"}
    assert all(fault.keys() == {"path", "message"} for fault in error["details"])
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("sent", ["a", "req-1.2:3_4", "x" * 128])
async def test_a_sound_request_id_is_echoed_in_header_and_body(shop: Shop, sent: str) -> None:
    answer = await shop.client.get("/api/memories", headers={"X-Request-Id": sent})
    assert (answer.headers["x-request-id"], answer.json()["error"]["requestId"]) == (sent, sent)


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "a/b", "é".encode(), "a,b", '"a"', "<script>", "a;b"])
async def test_any_other_request_id_is_replaced(shop: Shop, sent: str | bytes) -> None:
    answer = await shop.client.get("/api/memories", headers={"X-Request-Id": sent})
    made = answer.headers["x-request-id"]
    assert made == answer.json()["error"]["requestId"]
    assert len(made) == 32
    assert set(made) <= set("0123456789abcdef")


async def test_answers_of_success_have_a_request_id_too(shop: Shop, me: dict[str, Any]) -> None:
    answers = [await shop.client.get("/api/memories", headers=me), await shop.client.get("/api/live")]
    assert all(answer.headers["x-request-id"] for answer in answers)


async def test_two_requests_never_share_a_made_id(shop: Shop) -> None:
    made = {(await shop.client.get("/api/live")).headers["x-request-id"] for _ in range(5)}
    assert len(made) == 5


# --- What is never told

CONFIDENCE = "the vault opens with heliotrope"


async def test_no_error_or_log_line_holds_a_text_a_secret_or_a_query_string(
    shop: Shop, me: dict[str, Any], logged: io.StringIO
) -> None:
    secret = me["Authorization"].rsplit("_", 1)[1]
    saved = await shop.save(me, CONFIDENCE)
    await shop.recall(me, CONFIDENCE)
    bodies = (
        {"content": CONFIDENCE, "kind": CONFIDENCE},
        {"content": [CONFIDENCE], "kind": "topical", "scope": CONFIDENCE},
        {"content": CONFIDENCE + "\0", "kind": "topical"},
        {"content": "tea", "kind": "topical", "sourceThreadIds": [CONFIDENCE * 20, 5]},
        {"content": CONFIDENCE * 400, "kind": "topical"},
    )
    told = [await shop.post(me, body) for body in bodies]
    told.append(await send(shop, me, CONFIDENCE.encode()))
    told.append(await shop.client.get("/api/memories", headers=me, params={"limit": CONFIDENCE}))
    told.append(await shop.client.get("/api/memories", headers=me, params={"cursor": CONFIDENCE}))
    told.append(await shop.client.get("/api/memories", headers={**me, "X-Cpki-Memory-Grant": CONFIDENCE}))
    told.append(await shop.client.get("/api/memories", headers={"Authorization": me["Authorization"] + CONFIDENCE}))
    told.append(await shop.client.get(f"/api/{CONFIDENCE}?{CONFIDENCE}={secret}", headers=me))
    told.append(await shop.supersede(me, saved["id"], CONFIDENCE, kind="episodic"))
    told.append(await shop.client.get("/api/memories", headers={**me, "X-Cpki-User-Id": "heliotrope" * 30}))
    for answer in told:
        assert answer.is_error
        assert "heliotrope" not in answer.text
        assert secret not in answer.text
    lines = logged.getvalue()
    assert lines.count('"event":"request"') == len(told) + 2
    assert "heliotrope" not in lines
    assert secret not in lines
    assert "vault" not in lines


async def test_a_log_line_tells_route_status_time_key_and_request(
    shop: Shop, me: dict[str, Any], logged: io.StringIO
) -> None:
    await shop.client.get(f"/api/memories/{NO_SUCH_ID}", headers={**me, "X-Request-Id": "r1"})
    line = json.loads(logged.getvalue().splitlines()[-1])
    assert line["ms"] > 0
    assert {name: line[name] for name in ("route", "method", "status", "key_id", "request_id")} == {
        "route": "/api/memories/{id}",
        "method": "GET",
        "status": 404,
        "key_id": me["Authorization"].split("_")[1],
        "request_id": "r1",
    }


def test_the_keyed_and_the_guarded_routes_are_not_empty() -> None:
    """The loops above would pass over an empty table."""
    assert len(KEYED) > len(GUARDED) > 5


def head_of(target: str, *more: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: test", *more, "", ""]).encode()


UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


async def test_a_head_over_64_kib_is_431_and_one_under_it_is_served(shop: Shop) -> None:
    status, body = await raw_answer(shop, head_of("/api/live", f"X-Filler: {'x' * 300_000}")[:200_000])
    assert (status, json.loads(body)["error"]["message"]) == (431, "The request's head is over 64 KiB.")
    status, _ = await raw_answer(shop, head_of("/api/live", f"X-Filler: {'x' * 60_000}"))
    assert status == 200


async def test_a_head_that_never_ends_is_408(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)
    status, body = await raw_answer(shop, head_of("/api/live")[:-2])
    assert (status, json.loads(body)["error"]["code"]) == (408, "MEMORY_VALIDATION_ERROR")
    status, _ = await raw_answer(shop, b"")
    assert status == 408


async def test_large_bodies_one_after_the_other_on_one_connection_are_no_head(shop: Shop, me: dict[str, Any]) -> None:
    for _ in range(3):
        assert (await send(shop, me, padded(LIMIT))).status_code == 201


@pytest.mark.parametrize("garbage", [b"rubbish\r\n\r\n", b"GET / HTTP/1.1\r\nX: \x01\r\n\r\n"])
async def test_what_is_no_http_is_told_in_the_contracts_form(shop: Shop, garbage: bytes) -> None:
    status, body = await raw_answer(shop, garbage)
    assert (status, json.loads(body)["error"]["code"]) == (400, "MEMORY_VALIDATION_ERROR")


async def test_a_body_that_does_not_come_is_the_callers_fault(
    shop: Shop, me: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "BODY_SECONDS", 0.3)
    status, body = await raw_answer(shop, raw_head(me, "Content-Length: 100") + b"{")
    assert (status, json.loads(body)["error"]["message"]) == (400, "The body did not come whole within 0.3 s.")


@pytest.mark.parametrize("target", ["/", "/nope", "/api/live", "/api/memories", "/client/websocket/"])
async def test_an_upgrade_where_there_is_no_stream_is_404(shop: Shop, target: str) -> None:
    status, body = await raw_answer(shop, head_of(target, *UPGRADE))
    assert (status, json.loads(body)["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "head",
    [
        head_of(f"/client/websocket?vsn=2.0.0&join_token={'a' * 9000}", *UPGRADE),
        head_of("/client/websocket?vsn=2.0.0", *UPGRADE, f"Cookie: {'c' * 9000}"),
        head_of("/client/websocket?vsn=2.0.0", *UPGRADE, *(f"X-{number}: 1" for number in range(200))),
    ],
    ids=["long token", "long header", "many headers"],
)
async def test_an_upgrade_with_an_oversized_head_is_refused_at_once(shop: Shop, head: bytes) -> None:
    status, _ = await raw_answer(shop, head)
    assert status == 403
