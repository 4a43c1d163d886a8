"""`memlane.client` against a running service, and its retries against a server that fails."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from integration.rest.house import Shop
from memlane.client import (
    AsyncMemlane,
    Conflict,
    Denied,
    Draft,
    Memlane,
    MemlaneApiError,
    Memory,
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
from support.service import headers_of

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


async def test_a_batch_gives_the_error_of_each_memory_that_was_not_saved(shop: Shop) -> None:
    key = await shop.key()
    await shop.rows("update projects set max_live_memories = 1 where id = $1")
    async with AsyncMemlane(shop.service.url, key, user="ada") as memory:
        saved, refused = await memory.save_all([Draft("Likes tea.", "topical"), Draft("Likes rye.", "topical")])
    assert not isinstance(saved, MemlaneApiError)
    assert isinstance(refused, QuotaExceeded)
    assert (refused.code, bool(refused.request_id)) == ("QUOTA_EXCEEDED", True)


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
        done = {"outcomes": [MEMORY]} if self.path.endswith("/batch") else MEMORY
        body = json.dumps(
            done if status < 400 else {"error": {"code": CODES[status], "message": "m", "requestId": "r"}}
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
    with served(type("Scripted", (_Failing,), {"script": steps, "seen": seen})) as url:
        yield url, seen


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server of a thread of its own; its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
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


def test_every_write_but_forget_is_tried_again_with_one_key_the_callers_or_a_new_one() -> None:
    draft = Draft("x", "topical")
    writes: list[Callable[[Memlane, str | None], object]] = [
        lambda memory, key: memory.save("x", "topical", idempotency_key=key),
        lambda memory, key: memory.save_all([draft], idempotency_key=key),
        lambda memory, key: memory.supersede(GONE, draft, idempotency_key=key),
        lambda memory, key: memory.restore(GONE, idempotency_key=key),
    ]
    sent: list[str] = []
    for write in writes:
        for own in (None, None, "mine"):
            with failing(0, 201) as (url, seen), Memlane(url, "k", user="u") as memory:
                write(memory, own)
            (key,) = {key for _, key in seen}
            assert len(seen) == 2
            assert key
            assert own in {None, key}
            sent.append(key)
    assert len(set(sent)) == 2 * len(writes) + 1, "no two requests share a key that nobody chose"


class _Losing(BaseHTTPRequestHandler):
    """Hands requests on to a service, and loses the first answer after the service has done its work."""

    service: str
    lost: int
    answered: list[int]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        answer = httpx.request(self.command, self.service + self.path, headers=headers, content=body, timeout=10)
        self.answered.append(answer.status_code)
        first = len(self.answered) == 1
        if first and self.lost == 0:
            self.connection.close()
            return
        self.send_response(self.lost if first else answer.status_code)
        body = b"" if first else answer.content
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the library's names

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


LOST = [pytest.param(0, id="cut"), 502, 503, 504]


@contextmanager
def losing(service: str, lost: int) -> Iterator[tuple[str, list[int]]]:
    """A proxy whose first answer is this in place of the service's (0: none); what the service answered."""
    answered: list[int] = []
    with served(type("Before", (_Losing,), {"service": service, "lost": lost, "answered": answered})) as url:
        yield url, answered


async def operations(shop: Shop) -> list[str]:
    return [row[0] for row in await shop.rows("select operation from write_ledger where project_id = $1 order by id")]


@pytest.mark.parametrize("lost", LOST)
async def test_a_batch_whose_answer_was_lost_is_written_once(shop: Shop, lost: int) -> None:
    drafts = [Draft("Likes tea.", "topical"), Draft("The password is in the vault.", "topical"), Draft("x", "topical")]
    with losing(shop.service.url, lost) as (url, answered):
        async with AsyncMemlane(url, await shop.key(), user="ada") as memory:
            outcomes = await memory.save_all(drafts)
    assert answered == [200, 200]
    assert [one.absorbed for one in outcomes if isinstance(one, Memory)] == [False] * 3
    assert await operations(shop) == ["created"] * 3


@pytest.mark.parametrize("lost", LOST)
async def test_a_restore_whose_answer_was_lost_is_written_once(shop: Shop, lost: int) -> None:
    key = await shop.key()
    saved = await shop.save(headers_of(key, "ada"), "Likes tea.")
    await shop.retire(headers_of(key, "ada"), saved["id"])
    with losing(shop.service.url, lost) as (url, answered):
        async with AsyncMemlane(url, key, user="ada") as memory:
            assert (await memory.restore(saved["id"])).id == saved["id"]
    assert answered == [200, 200]
    assert await operations(shop) == ["created", "retired", "restored"]


@pytest.mark.parametrize("lost", LOST)
async def test_a_forget_whose_answer_was_lost_is_written_once_and_is_no_error(shop: Shop, lost: int) -> None:
    key = await shop.key()
    saved = await shop.save(headers_of(key, "ada"), "Likes tea.")
    with losing(shop.service.url, lost) as (url, answered):
        async with AsyncMemlane(url, key, user="ada") as memory:
            await memory.forget(saved["id"])
            await memory.forget(saved["id"])
            assert answered == [204] * 3
            with pytest.raises(NotFound):
                await memory.forget(GONE)
    assert await operations(shop) == ["created", "retired"]


async def test_a_script_that_is_run_again_with_its_own_keys_writes_nothing_twice(shop: Shop) -> None:
    drafts = [Draft("Likes tea.", "topical"), Draft("Likes rye.", "topical")]
    async with AsyncMemlane(shop.service.url, await shop.key(), user="ada") as memory:
        runs = [await memory.save_all(drafts, idempotency_key="nightly") for _ in range(2)]
        assert runs[0] == runs[1]
        with pytest.raises(Conflict, match="IDEMPOTENCY_CONFLICT"):
            await memory.save_all(drafts[:1], idempotency_key="nightly")
    assert await operations(shop) == ["created", "created"]


def test_a_service_that_is_not_there_is_unreachable() -> None:
    with Memlane("http://127.0.0.1:9", "k", user="u") as memory, pytest.raises(Unavailable, match="UNREACHABLE"):
        memory.read(GONE)
