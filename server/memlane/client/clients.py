"""The two clients: the same requests over httpx, with and without an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Self, TypeVar

import httpx

from memlane.client.calls import Answer, Call, Calls, Draft, Kind, Memory, Scope, read_answer
from memlane.client.calls import attempts as steps_of
from memlane.client.errors import MemlaneApiError

T = TypeVar("T")

TIMEOUT_SECONDS = 15.0
"""Longest wait for one answer; the service answers or fails within 5 s, a batch within 15 s."""


class _Client:
    """What both clients share.

    What gets no answer, or 429, 502, 503 or 504, is tried three more times. A write carries an `Idempotency-Key`, the
    caller's or a random one, so that a retry writes nothing twice; within 24 h the same key gives the same answer.

    Args:
        url: The service's base URL.
        key: A runtime key.
        user: On whose behalf; 1 to 256 characters.
        run: Names this run in the ledger.
        source: What the memories come from, as ``<type>:<id>``.
        triggered_by: Who or what began the run.
        timeout: Longest wait for one answer, in seconds.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        user: str,
        run: str | None = None,
        source: str | None = None,
        triggered_by: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        said = {"X-Memlane-Run": run, "X-Memlane-Source": source, "X-Memlane-Triggered-By": triggered_by}
        headers = {"Authorization": f"Bearer {key}", "X-Cpki-User-Id": user}
        headers |= {name: value for name, value in said.items() if value is not None}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._options: dict[str, Any] = {"base_url": url.rstrip("/"), "headers": raw, "timeout": timeout}
        self._calls = Calls()
        self._open()

    def _open(self) -> None:
        raise NotImplementedError


class Memlane(_Client):
    """The client for scripts without an event loop; use it in a ``with`` or call `close`."""

    def _open(self) -> None:
        self._http = httpx.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def save(
        self,
        content: str,
        kind: Kind,
        scope: Scope = "user",
        source_thread_ids: Sequence[str] = (),
        *,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Save a statement; one that is known already absorbs it (`absorbed`)."""
        return self._send(self._calls.save(Draft(content, kind, scope, source_thread_ids), idempotency_key))

    def save_all(
        self, drafts: Sequence[Draft], *, idempotency_key: str | None = None
    ) -> list[Memory | MemlaneApiError]:
        """Save up to 100 drafts, each a write of its own with its own outcome, in order.

        Repeated with the same key and drafts it writes only those whose outcome was an error; the others' outcomes are
        as they were.
        """
        return self._send(self._calls.save_all(drafts, idempotency_key))

    def supersede(self, memory_id: str, draft: Draft, *, idempotency_key: str | None = None) -> Memory:
        """Replace a live memory by another of the same kind and scope; it has a new id."""
        return self._send(self._calls.supersede(memory_id, draft, idempotency_key))

    def recall(
        self,
        query: str,
        limit: int = 5,
        *,
        scope: Scope | None = None,
        kind: Kind | None = None,
        min_score: float = 0.0,
        strict: bool = False,
    ) -> list[Memory]:
        """The live memories that answer a query best, at most 20, highest score first."""
        return self._send(self._calls.recall(query, limit, scope, kind, min_score, strict))

    def memories(self, *, include_retired: bool = False) -> Iterator[Memory]:
        """All memories that this caller can read, newest first, page by page."""
        cursor: str | None = None
        while True:
            page, cursor = self._send(self._calls.page(include_retired, cursor))
            yield from page
            if cursor is None:
                return

    def read(self, memory_id: str) -> Memory:
        """One memory, live or retired."""
        return self._send(self._calls.read(memory_id))

    def forget(self, memory_id: str) -> None:
        """Retire a memory; one that is retired already stays so, and that is no error.

        Raises:
            NotFound: This caller can see no memory of that id, live or retired.
        """
        self._send(self._calls.forget(memory_id))

    def restore(self, memory_id: str, *, idempotency_key: str | None = None) -> Memory:
        """Bring a retired memory back, unless a live one says the same: then that one."""
        return self._send(self._calls.restore(memory_id, idempotency_key))

    def provenance(self, memory_id: str) -> list[dict[str, Any]]:
        """The ledger of one memory, oldest write first, as the wire has it."""
        return self._send(self._calls.provenance(memory_id))

    def _send(self, call: Call[T]) -> T:
        steps = steps_of(call)
        request = next(steps)
        while True:
            try:
                answer: Answer = self._http.request(**request)
            except httpx.TransportError as fault:
                answer = fault
            try:
                time.sleep(steps.send(answer))
            except StopIteration as done:
                return read_answer(call, done.value)
            request = next(steps)


class AsyncMemlane(_Client):
    """The client for an event loop; use it in an ``async with`` or await `aclose`. Methods are as `Memlane`'s."""

    def _open(self) -> None:
        self._http = httpx.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def save(
        self,
        content: str,
        kind: Kind,
        scope: Scope = "user",
        source_thread_ids: Sequence[str] = (),
        *,
        idempotency_key: str | None = None,
    ) -> Memory:
        """See `Memlane.save`."""
        return await self._send(self._calls.save(Draft(content, kind, scope, source_thread_ids), idempotency_key))

    async def save_all(
        self, drafts: Sequence[Draft], *, idempotency_key: str | None = None
    ) -> list[Memory | MemlaneApiError]:
        """See `Memlane.save_all`."""
        return await self._send(self._calls.save_all(drafts, idempotency_key))

    async def supersede(self, memory_id: str, draft: Draft, *, idempotency_key: str | None = None) -> Memory:
        """See `Memlane.supersede`."""
        return await self._send(self._calls.supersede(memory_id, draft, idempotency_key))

    async def recall(
        self,
        query: str,
        limit: int = 5,
        *,
        scope: Scope | None = None,
        kind: Kind | None = None,
        min_score: float = 0.0,
        strict: bool = False,
    ) -> list[Memory]:
        """See `Memlane.recall`."""
        return await self._send(self._calls.recall(query, limit, scope, kind, min_score, strict))

    async def memories(self, *, include_retired: bool = False) -> AsyncIterator[Memory]:
        """See `Memlane.memories`."""
        cursor: str | None = None
        while True:
            page, cursor = await self._send(self._calls.page(include_retired, cursor))
            for memory in page:
                yield memory
            if cursor is None:
                return

    async def read(self, memory_id: str) -> Memory:
        """See `Memlane.read`."""
        return await self._send(self._calls.read(memory_id))

    async def forget(self, memory_id: str) -> None:
        """See `Memlane.forget`."""
        await self._send(self._calls.forget(memory_id))

    async def restore(self, memory_id: str, *, idempotency_key: str | None = None) -> Memory:
        """See `Memlane.restore`."""
        return await self._send(self._calls.restore(memory_id, idempotency_key))

    async def provenance(self, memory_id: str) -> list[dict[str, Any]]:
        """See `Memlane.provenance`."""
        return await self._send(self._calls.provenance(memory_id))

    async def _send(self, call: Call[T]) -> T:
        steps = steps_of(call)
        request = next(steps)
        while True:
            try:
                answer: Answer = await self._http.request(**request)
            except httpx.TransportError as fault:
                answer = fault
            try:
                await asyncio.sleep(steps.send(answer))
            except StopIteration as done:
                return read_answer(call, done.value)
            request = next(steps)
