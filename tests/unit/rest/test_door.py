import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from memlane.domain.errors import Denied, EmbedderUnavailable, KindMismatch, MemlaneError
from memlane.observability.logs import _line
from memlane.rest.door import Handler, NoDoor, Operation, PathDoor


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What `log` writes."""
    stream = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer(serializer=_line)],
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    yield stream
    structlog.reset_defaults()


async def knock(door: Any, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], Any]:
    """One request; its status, headers and body. None for the status when nothing was sent."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await door({"type": "http", "method": method, "path": "/x", "query_string": b"", "headers": raw}, receive, send)
    if not sent:
        return 0, {}, None
    body = b"".join(message.get("body", b"") for message in sent[1:])
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, json.loads(body) if body else None


def door(handler: Handler, seconds: float = 1.0) -> PathDoor:
    return PathDoor("/x", {"GET": Operation(handler, seconds)})


def raising(fault: BaseException) -> Handler:
    async def handler(_request: Request) -> Response:
        raise fault

    return handler


async def test_a_handler_over_its_deadline_is_503_with_retry_after() -> None:
    async def sleep(_request: Request) -> Response:
        await asyncio.sleep(30)
        return Response()

    status, headers, body = await knock(door(sleep, 0.01))
    assert (status, body["error"]["code"], headers["retry-after"]) == (503, "STORAGE_UNAVAILABLE", "1")


async def test_an_unexpected_exception_is_500_without_its_message(lines: io.StringIO) -> None:
    status, _, body = await knock(door(raising(RuntimeError("select heliotrope from secrets"))), x_request_id="r1")
    assert status == 500
    assert body == {
        "error": {"code": "INTERNAL_ERROR", "message": "Something went wrong on our side.", "requestId": "r1"}
    }
    assert "heliotrope" not in lines.getvalue()


async def test_an_unexpected_exception_is_logged_by_kind_and_place(lines: io.StringIO) -> None:
    await knock(door(raising(RuntimeError("heliotrope"))), x_request_id="r1")
    first = json.loads(lines.getvalue().splitlines()[0])
    assert (first["event"], first["kind"], first["request_id"]) == ("internal_error", "RuntimeError", "r1")
    assert first["place"].startswith("test_door.py:")


async def test_an_error_without_a_status_is_500() -> None:
    status, _, body = await knock(door(raising(MemlaneError())))
    assert (status, body["error"]["code"]) == (500, "INTERNAL_ERROR")


async def test_a_subclass_of_an_error_has_its_parents_status() -> None:
    class Overloaded(EmbedderUnavailable):
        """The embedder's queue is full."""

    status, headers, body = await knock(door(raising(Overloaded(retry_after_seconds=7))))
    assert (status, body["error"]["code"], headers["retry-after"]) == (503, "EMBEDDER_UNAVAILABLE", "7")
    assert body["error"]["message"] == "The embedder's queue is full."


async def test_a_family_without_a_code_of_its_own_is_500() -> None:
    assert (await knock(door(raising(Denied()))))[0] == 500


async def test_an_error_of_the_domain_keeps_its_message() -> None:
    status, _, body = await knock(door(raising(KindMismatch("It is topical."))))
    assert (status, body["error"]["message"]) == (409, "It is topical.")


async def test_a_client_that_left_gets_no_answer(lines: io.StringIO) -> None:
    assert await knock(door(raising(ClientDisconnect()))) == (0, {}, None)
    assert json.loads(lines.getvalue())["event"] == "client_left"


async def test_a_cancelled_request_stays_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await knock(door(raising(asyncio.CancelledError())))


async def test_a_sound_request_id_is_echoed_and_another_replaced() -> None:
    async def fine(_request: Request) -> Response:
        return Response(status_code=204)

    assert (await knock(door(fine), x_request_id="a.b:c-d_1"))[1]["x-request-id"] == "a.b:c-d_1"
    for sent in ("", "a b", "x" * 129, "a\nb"):
        made = (await knock(door(fine), x_request_id=sent))[1]["x-request-id"]
        assert len(made) == 32
        assert made != sent


async def test_a_wrong_method_is_told_what_is_allowed() -> None:
    async def fine(_request: Request) -> Response:
        return Response()

    two = PathDoor("/x", {"POST": Operation(fine), "DELETE": Operation(fine)})
    status, headers, body = await knock(two, "PUT")
    assert (status, headers["allow"], body["error"]["code"]) == (405, "DELETE, POST", "METHOD_NOT_ALLOWED")


async def test_head_is_served_by_get() -> None:
    async def fine(_request: Request) -> Response:
        return Response(status_code=200)

    assert (await knock(door(fine), "HEAD"))[0] == 200


async def test_a_path_without_a_door_is_404() -> None:
    status, _, body = await knock(NoDoor())
    assert (status, body["error"]["code"]) == (404, "NOT_FOUND")


async def test_the_log_line_names_the_template_and_never_an_odd_method(lines: io.StringIO) -> None:
    await knock(door(raising(MemlaneError())), "HELIOTROPE")
    line = json.loads(lines.getvalue().splitlines()[-1])
    assert (line["route"], line["method"], line["status"]) == ("/x", "other", 405)
