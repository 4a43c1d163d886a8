"""Requests and how their answers are read, without any I/O: both clients are made of these."""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx

from memlane.client.errors import ERRORS, MemlaneApiError, Unavailable

Kind = Literal["topical", "episodic", "operational"]
Scope = Literal["user", "project"]
T = TypeVar("T")

TRIES = 4
"""Tries of one request: one, and three more."""
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 10.0
"""Longest wait before a retry; a service that asks for more is not waited for."""
_RETRIED = frozenset({429, 502, 503, 504})

Answer = httpx.Response | httpx.TransportError


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory. ``score`` (0 to 1) is of a recall; the next three are of a write; ``retired_id`` of a supersede."""

    id: str
    kind: Kind
    scope: Scope
    content: str
    source_thread_ids: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    invalidated_at: datetime | None
    recalled_at: datetime | None
    score: float | None = None
    absorbed: bool | None = None
    similar: tuple[tuple[str, float], ...] = ()
    retired_id: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What to save."""

    content: str
    kind: Kind
    scope: Scope = "user"
    source_thread_ids: Sequence[str] = ()

    def body(self) -> dict[str, Any]:
        """As the wire has it."""
        return {
            "content": self.content,
            "kind": self.kind,
            "scope": self.scope,
            "sourceThreadIds": list(self.source_thread_ids),
        }


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None


class Calls:
    """Builds requests; knows nothing of how they are sent.

    Every one may be repeated when its answer is lost: what writes carries a key, but for `forget`, whose repetition
    changes nothing.
    """

    def save(self, draft: Draft, idempotency_key: str | None) -> Call[Memory]:
        """POST /api/memories."""
        return Call("POST", "/api/memories", _memory, draft.body(), key=idempotency_key or uuid4().hex)

    def save_all(self, drafts: Sequence[Draft], idempotency_key: str | None) -> "Call[list[Memory | MemlaneApiError]]":
        """POST /api/memories/batch."""
        body = {"memories": [draft.body() for draft in drafts]}
        return Call("POST", "/api/memories/batch", _outcomes, body, key=idempotency_key or uuid4().hex)

    def supersede(self, memory_id: str, draft: Draft, idempotency_key: str | None) -> Call[Memory]:
        """PATCH /api/memories/{id}."""
        return Call("PATCH", _path(memory_id), _memory, draft.body(), key=idempotency_key or uuid4().hex)

    def recall(
        self, query: str, limit: int, scope: Scope | None, kind: Kind | None, min_score: float, strict: bool
    ) -> Call[list[Memory]]:
        """POST /api/memories/recall."""
        asked: dict[str, Any] = {"query": query, "limit": limit, "minScore": min_score, "strict": strict}
        asked |= {name: value for name, value in (("scope", scope), ("kind", kind)) if value is not None}
        return Call("POST", "/api/memories/recall", _memories, asked)

    def page(self, include_retired: bool, cursor: str | None) -> Call[tuple[list[Memory], str | None]]:
        """GET /api/memories: rows, and the next page's cursor."""
        query = {"includeInvalidated": "true"} if include_retired else {}
        query |= {} if cursor is None else {"cursor": cursor}
        return Call("GET", "/api/memories", lambda body: (_memories(body), body.get("nextCursor")), query=query)

    def read(self, memory_id: str) -> Call[Memory]:
        """GET /api/memories/{id}."""
        return Call("GET", _path(memory_id), _memory)

    def forget(self, memory_id: str) -> Call[None]:
        """DELETE /api/memories/{id}."""
        return Call("DELETE", _path(memory_id), lambda _: None)

    def restore(self, memory_id: str, idempotency_key: str | None) -> Call[Memory]:
        """POST /api/memories/{id}/restore."""
        return Call("POST", f"{_path(memory_id)}/restore", _memory, key=idempotency_key or uuid4().hex)

    def provenance(self, memory_id: str) -> Call[list[dict[str, Any]]]:
        """GET /api/memories/{id}/provenance."""
        return Call("GET", f"{_path(memory_id)}/provenance", lambda body: list(body["writes"]))


def attempts(call: Call[T]) -> Generator[Any, Any, Answer]:
    """What to do, step by step: gives the request, is sent its answer, and gives the seconds to wait before the next.

    Returns:
        The answer that stands.
    """
    request: dict[str, Any] = {"method": call.method, "url": call.path, "params": dict(call.query)}
    if call.body is not None:
        request["json"] = call.body
    if call.key is not None:
        request["headers"] = {"Idempotency-Key": call.key}
    for attempt in range(1, TRIES + 1):
        answer: Answer = yield request
        wait = _wait(answer, attempt)
        if wait is None or attempt == TRIES:
            return answer
        yield wait
    raise AssertionError("the last attempt returns")


def read_answer(call: Call[T], answer: Answer) -> T:
    """The result of a call.

    Raises:
        MemlaneApiError: Of the answer's code.
    """
    if isinstance(answer, httpx.TransportError):
        raise Unavailable("UNREACHABLE", f"there was no answer ({type(answer).__name__})") from answer
    if answer.is_success:
        return call.read(answer.json() if answer.content else None)
    raise _error_of(answer)


def _wait(answer: Answer, attempt: int) -> float | None:
    """Seconds before the next attempt; None when there is none to be made."""
    # Jitter, so that many scripts do not come back all at once.
    backoff: float = FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - jitter is no secret
    if isinstance(answer, httpx.TransportError):
        return backoff
    if answer.status_code not in _RETRIED:
        return None
    asked: float | None = _seconds(answer.headers.get("retry-after"))
    if asked is None:
        return backoff
    if asked > LONGEST_WAIT_SECONDS:
        return None
    return max(asked, backoff)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _error_of(answer: httpx.Response) -> MemlaneApiError:
    try:
        error: Any = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        error, code, message = {}, "UNKNOWN", f"HTTP {answer.status_code} without the contract's error"
    return ERRORS.get(code, MemlaneApiError)(
        code,
        message,
        status=answer.status_code,
        request_id=error.get("requestId", ""),
        details=error.get("details", ()),
        retry_after=_seconds(answer.headers.get("retry-after")),
    )


def _path(memory_id: str) -> str:
    return f"/api/memories/{quote(memory_id, safe='')}"


def _memory(body: Any) -> Memory:
    return Memory(
        id=body["id"],
        kind=body["kind"],
        scope=body["scope"],
        content=body["content"],
        source_thread_ids=tuple(body["sourceThreadIds"]),
        created_at=_time(body["createdAt"]),
        updated_at=_time(body["updatedAt"]),
        invalidated_at=None if body["invalidatedAt"] is None else _time(body["invalidatedAt"]),
        recalled_at=None if body["recalledAt"] is None else _time(body["recalledAt"]),
        score=body.get("score"),
        absorbed=body.get("absorbed"),
        similar=tuple((near["id"], near["score"]) for near in body.get("similar") or ()),
        retired_id=body.get("retiredId"),
    )


def _memories(body: Any) -> list[Memory]:
    return [_memory(one) for one in body["memories"]]


def _outcomes(body: Any) -> list[Memory | MemlaneApiError]:
    return [_memory(one) if "id" in one else _fault(one["error"]) for one in body["outcomes"]]


def _fault(error: Any) -> MemlaneApiError:
    code = str(error["code"])
    return ERRORS.get(code, MemlaneApiError)(
        code, error["message"], request_id=error.get("requestId", ""), details=error.get("details", ())
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
