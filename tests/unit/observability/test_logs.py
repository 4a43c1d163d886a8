"""A log line never holds a key's secret, a memory's text or a query string, whoever logs it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from memlane.observability.logs import log, set_up_logs

KEY = "cpk-my-shop_0123456789ab_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written = io.StringIO()
    set_up_logs("DEBUG", written)
    yield written
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_own_lines_are_json_with_event_level_and_time(stream: io.StringIO) -> None:
    log.info("request", status=200, ms=1.5, route="/api/memories/{id}")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["status"], line["ms"]) == ("request", "info", 200, 1.5)
    assert line["timestamp"].endswith("Z")


def test_what_json_cannot_say_becomes_text(stream: io.StringIO) -> None:
    log.info("odd", value={1, 2}, error=ValueError("x"))
    assert len(lines(stream)) == 1


def test_lines_of_libraries_are_json_too_and_name_the_library(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    (line,) = lines(stream)
    assert (line["logger"], line["level"]) == ("uvicorn.error", "warning")


@pytest.mark.parametrize(
    "message",
    [
        f'"GET /api/memories HTTP/1.1" with {KEY}',
        f"Authorization: Bearer {KEY}",
        f"{KEY} {KEY}",
        'GET /api/memories?cursor=ABCDEFGHIJKLMNOPQRSTUVWXYZ HTTP/1.1" 200',
        "http://host/client/websocket?token=ABCDEFGHIJKLMNOPQRSTUVWXYZ&vsn=2.0.0",
    ],
)
def test_secrets_and_query_strings_of_libraries_are_cut_out(stream: io.StringIO, message: str) -> None:
    logging.getLogger("uvicorn.error").error(message)
    assert "ABCDEFGHIJKLMNOPQRSTUVWXYZ" not in stream.getvalue()
    assert "[redacted]" in stream.getvalue()


def test_a_keys_public_id_stays_readable(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").error("refused %s", KEY)
    assert "cpk-my-shop_0123456789ab_[redacted]" in stream.getvalue()


def test_an_exception_of_a_library_shows_no_message_and_no_frames(stream: io.StringIO) -> None:
    fault = ValueError("a memory's text")
    logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=fault)
    assert "a memory's text" not in stream.getvalue()
    assert "Traceback" not in stream.getvalue()


def test_a_traceback_that_came_as_a_message_is_cut_to_the_kind_of_fault(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").error(
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in start\n    raise Trouble\n'
        "pkg.Trouble: the password is hunter2\nand: more of it\n"
    )
    assert lines(stream)[0]["event"] == "failed: pkg.Trouble"


def test_a_traceback_of_a_group_is_cut_too(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").error(
        "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: hunter2 (1 sub-exception)\n"
    )
    assert "hunter2" not in stream.getvalue()


def test_libraries_are_heard_from_warnings_on(stream: io.StringIO) -> None:
    logging.getLogger("httpx").info("HTTP Request: POST http://tei/embed")
    logging.getLogger("asyncio").debug("Using selector")
    logging.getLogger("uvicorn.access").warning('127.0.0.1 - "GET /?q=x"')
    assert stream.getvalue() == ""


def test_below_its_level_nothing_of_ours_is_written(stream: io.StringIO) -> None:
    set_up_logs("ERROR", stream)
    log.warning("database_not_ready")
    log.error("task_died")
    assert [line["event"] for line in lines(stream)] == ["task_died"]
