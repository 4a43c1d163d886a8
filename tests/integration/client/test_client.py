"""`memlane.client` against a running service, and its retries against a server that fails."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from integration.rest.house import Shop
from memlane.client import (
    AsyncMemlane,
    Conflict,
    Denied,
    Draft,
    Memlane,
    MemlaneApiError,
    NotFound,
    QuotaExceeded,
    RateLimited,
    SecretDetected,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)
from memlane.client.errors import ERRORS
from memlane.domain.lane import LaneMode
from memlane.rest.errors import STATUS_OF

GONE = "0193b6f0-0000-7000-8000-000000000000"


async def test_the_async_client_does_all_that_rest_does(shop: Shop) -> None:
    key = await shop.key()
    async with AsyncMemlane(
        shop.service.url, key, user="ada ü", run="r1", source="ticket:7", triggered_by="cron"
    ) as memory:
        saved = await memory.save("Prefers metric units.", "operational", source_thread_ids=["t1"])
        assert (saved.absorbed, saved.scope, saved.source_thread_ids) == (False, "user", ("t1",))
        assert (await memory.save("prefers metric units", "operational")).absorbed is True
        (found,) = await memory.recall("which units does the user want", kind="operational")
        assert (found.id, found.score is not None and found.score > 0) == (saved.id, True)
        newer = await memory.supersede(saved.id, Draft("Prefers imperial units.", "operational"))
        assert newer.retired_id == saved.id
        assert [one.id async for one in memory.memories()] == [newer.id]
        assert {one.id async for one in memory.memories(include_retired=True)} == {saved.id, newer.id}
        assert (await memory.read(saved.id)).invalidated_at is not None
        await memory.forget(newer.id)
        assert (await memory.restore(newer.id)).id == newer.id
        write = (await memory.provenance(saved.id))[0]
        assert (write["run"], write["sourceType"], write["sourceId"], write["triggeredBy"]) == (
            "r1",
            "ticket",
            "7",
            "cron",
        )
        outcomes = await memory.save_all([Draft("We ship on Fridays.", "topical", "project")])
        assert [one.scope for one in outcomes if not isinstance(one, MemlaneApiError)] == ["project"]


async def test_the_sync_client_and_the_errors_by_their_names(shop: Shop) -> None:
    key = await shop.key()
    readers = await shop.key(lane="readers", mode=LaneMode.READ_ONLY)

    def script() -> None:
        with Memlane(shop.service.url, key, user="ada") as memory:
            saved = memory.save("Likes tea.", kind="topical")
            assert [one.content for one in memory.memories()] == ["Likes tea."]
            with pytest.raises(ValidationFailed, match="MEMORY_VALIDATION_ERROR") as fault:
                memory.save(" ", "topical")
            assert (fault.value.status, fault.value.details[0]["path"]) == (400, "content")
            assert fault.value.request_id
            with pytest.raises(SecretDetected):
                memory.save("The password is hunter2", "topical")
            with pytest.raises(NotFound):
                memory.read(GONE)
            with pytest.raises(Conflict, match="MEMORY_KIND_MISMATCH"):
                memory.supersede(saved.id, Draft("x", "episodic"))
            memory.save("Likes rye.", "topical", idempotency_key="k")
            with pytest.raises(Conflict, match="IDEMPOTENCY_CONFLICT"):
                memory.save("Likes walks.", "topical", idempotency_key="k")
        with Memlane(shop.service.url, readers, user="ada") as memory, pytest.raises(Denied) as denied:
            memory.forget(saved.id)
        assert denied.value.code == "LANE_READ_ONLY"
        with Memlane(shop.service.url, key + "x", user="ada") as memory, pytest.raises(Unauthenticated):
            memory.recall("tea")
        assert key.rpartition("_")[2] not in repr(memory.__dict__.get("_calls"))

    await asyncio.to_thread(script)


def test_every_code_of_the_contract_has_its_exception() -> None:
    codes = {kind.code for kind in STATUS_OF} - {"METHOD_NOT_ALLOWED", "INTERNAL_ERROR"}
    assert codes <= set(ERRORS)


def test_importing_it_loads_nothing_else_of_memlane() -> None:
    code = "import sys, memlane.client; print(sorted(n for n in sys.modules if n.startswith('memlane')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(
        ["memlane", *(f"memlane.client{part}" for part in ("", ".calls", ".clients", ".errors"))]
    )


class _Failing(BaseHTTPRequestHandler):
    """Answers from a script: a status with headers, or a cut connection."""

    script: list[tuple[int, dict[str, str]]]
    seen: list[tuple[str, str | None]]

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.command, self.headers.get("Idempotency-Key")))
        status, headers = self.script.pop(0)
        if status == 0:
            self.connection.close()
            return
        body = json.dumps(
            MEMORY if status < 400 else {"error": {"code": CODES[status], "message": "m", "requestId": "r"}}
        ).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the library's names

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


MEMORY = {
    "id": GONE, "kind": "topical", "scope": "user", "content": "x", "sourceThreadIds": [], "invalidatedAt": None,
    "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "recalledAt": None, "absorbed": False,
}  # fmt: skip
CODES = {429: "RATE_LIMITED", 503: "STORAGE_UNAVAILABLE", 409: "QUOTA_EXCEEDED", 502: "UNKNOWN"}


@contextmanager
def failing(*script: int | tuple[int, dict[str, str]]) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A server that answers in this order; what it saw."""
    steps = [step if isinstance(step, tuple) else (step, {}) for step in script]
    seen: list[tuple[str, str | None]] = []
    handler = type("Scripted", (_Failing,), {"script": steps, "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_save_is_tried_again_with_the_same_idempotency_key() -> None:
    with failing(503, 0, (429, {"Retry-After": "0"}), 201) as (url, seen), Memlane(url, "k", user="u") as memory:
        assert memory.save("x", "topical").id == GONE
    assert [method for method, _ in seen] == ["POST"] * 4
    assert len({key for _, key in seen}) == 1
    assert seen[0][1]


def test_it_gives_up_after_four_tries_with_the_last_error() -> None:
    with failing(503, 503, 503, 503, 201) as (url, seen), Memlane(url, "k", user="u") as memory:
        with pytest.raises(Unavailable) as fault:
            memory.read(GONE)
        assert (fault.value.code, len(seen)) == ("STORAGE_UNAVAILABLE", 4)


def test_what_is_refused_is_not_tried_again() -> None:
    with failing(409, 201) as (url, seen), Memlane(url, "k", user="u") as memory:
        with pytest.raises(QuotaExceeded):
            memory.save("x", "topical")
        assert len(seen) == 1


def test_a_service_that_asks_for_a_long_wait_is_not_waited_for() -> None:
    with failing((429, {"Retry-After": "60"})) as (url, _), Memlane(url, "k", user="u") as memory:
        with pytest.raises(RateLimited) as fault:
            memory.read(GONE)
        assert fault.value.retry_after == 60


def test_a_batch_whose_connection_was_cut_is_not_sent_twice() -> None:
    with failing(0, 201) as (url, seen), Memlane(url, "k", user="u") as memory:
        with pytest.raises(Unavailable, match="UNREACHABLE"):
            memory.save_all([Draft("x", "topical")])
        assert len(seen) == 1


def test_a_service_that_is_not_there_is_unreachable() -> None:
    with Memlane("http://127.0.0.1:9", "k", user="u") as memory, pytest.raises(Unavailable, match="UNREACHABLE"):
        memory.read(GONE)
