"""Every URL of the service, in one table. Handlers, the router and the OpenAPI document are made from it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.routing import BaseRoute, Mount, Route

from memlane.rest import models
from memlane.rest.door import DEADLINE_SECONDS, Handler, NoDoor, Operation, PathDoor
from memlane.rest.handlers import MemoryHandlers
from memlane.rest.health import EntitlementHandlers, HealthHandlers
from memlane.usecases.batch_time import BATCH_SECONDS


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One operation: where it stands, what it takes and what it answers.

    Attributes:
        method: HTTP method.
        path: Template; its one parameter is ``{id}``.
        handler: Serves it.
        summary: What it does, in one sentence.
        tag: Chapter of the reference.
        answers: Model by success status; None for an empty body.
        errors: The error statuses that it may give.
        body: Model of the request body.
        body_required: Whether the body may be left out.
        query: Model of the query parameters.
        idempotent_by_key: Whether `Idempotency-Key` is heard.
        needs_user: Whether the whole runtime tuple is needed, and not the key alone.
        open: Whether no credential is needed.
        deadline_seconds: Longest work.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    answers: dict[int, type[BaseModel] | None]
    errors: Sequence[int]
    body: type[BaseModel] | None = None
    body_required: bool = True
    query: type[BaseModel] | None = None
    idempotent_by_key: bool = False
    needs_user: bool = True
    open: bool = False
    deadline_seconds: float = DEADLINE_SECONDS


_READ = (400, 401, 403, 404, 429, 503)
_WRITE = (400, 401, 403, 404, 409, 413, 429, 503)


def memory_table(memories: MemoryHandlers, entitlements: EntitlementHandlers) -> tuple[RouteSpec, ...]:
    """What the `api` role serves beside its health."""
    return (
        RouteSpec(
            "GET",
            "/api/memories",
            memories.list,
            "List the memories that the grant can read, newest first.",
            "Memories",
            {200: models.MemoryListBody, 304: None},
            _READ,
            query=models.ListQuery,
        ),
        RouteSpec(
            "POST",
            "/api/memories",
            memories.create,
            "Save a memory; a live one that already says so absorbs it.",
            "Memories",
            {201: models.WrittenMemory},
            _WRITE,
            body=models.MemoryDraft,
            idempotent_by_key=True,
        ),
        RouteSpec(
            "POST",
            "/api/memories/batch",
            memories.create_batch,
            "Save up to 100 memories, each as its own write.",
            "Memories",
            {200: models.BatchBody},
            _WRITE,
            body=models.MemoryBatch,
            idempotent_by_key=True,
            deadline_seconds=BATCH_SECONDS + DEADLINE_SECONDS,
        ),
        RouteSpec(
            "POST",
            "/api/memories/recall",
            memories.recall,
            "Recall live memories by meaning and by words.",
            "Memories",
            {200: models.RecallBody},
            (400, 401, 403, 404, 413, 429, 503),
            body=models.RecallRequest,
        ),
        RouteSpec(
            "POST",
            "/api/memories/subscribe",
            memories.subscribe,
            "Get join tokens for the live stream.",
            "Stream",
            {200: models.SubscribeBody},
            (400, 401, 403, 404, 413, 429, 503),
            body=models.Empty,
            body_required=False,
        ),
        RouteSpec(
            "DELETE",
            "/api/memories/subscribe",
            memories.unsubscribe,
            "End every stream session of this user (log-out).",
            "Stream",
            {204: None},
            _READ,
        ),
        RouteSpec(
            "GET",
            "/api/memories/{id}",
            memories.read,
            "Read one memory, live or retired.",
            "Memories",
            {200: models.MemoryBody},
            _READ,
        ),
        RouteSpec(
            "PATCH",
            "/api/memories/{id}",
            memories.replace,
            "Supersede a memory: it is retired and a new one made, in one transaction.",
            "Memories",
            {200: models.SupersededMemory},
            _WRITE,
            body=models.MemoryDraft,
            idempotent_by_key=True,
        ),
        RouteSpec(
            "DELETE",
            "/api/memories/{id}",
            memories.retire,
            "Retire a memory; repeating it is fine.",
            "Memories",
            {204: None},
            _READ,
        ),
        RouteSpec(
            "POST",
            "/api/memories/{id}/restore",
            memories.restore,
            "Bring a retired memory back, unless a live one says the same.",
            "Memories",
            {200: models.WrittenMemory},
            (400, 401, 403, 404, 409, 429, 503),
            idempotent_by_key=True,
        ),
        RouteSpec(
            "GET",
            "/api/memories/{id}/provenance",
            memories.provenance,
            "Who wrote this memory, from what, and what changed: its newest 1,000 writes, oldest first.",
            "Memories",
            {200: models.ProvenanceBody},
            _READ,
        ),
        RouteSpec(
            "GET",
            "/api/entitlements/runtime",
            entitlements.runtime_entitlement,
            "What the key's organization is entitled to.",
            "Runtime",
            {200: models.RuntimeEntitlementBody},
            (400, 401, 503),
            needs_user=False,
        ),
    )


def health_table(health: HealthHandlers) -> tuple[RouteSpec, ...]:
    """What every role serves."""
    handlers = (
        ("live", health.live, "200 while the process runs."),
        ("accepting", health.accepting, "200 while the process takes new work."),
        ("health", health.health, "200 when the database answers."),
        ("ready", health.ready, "200 when every dependency answers."),
    )
    return tuple(
        RouteSpec(
            "GET",
            f"/api/{name}",
            handler,
            summary,
            "Health",
            {200: models.StatusBody},
            (400,) if name == "live" else (400, 503),
            needs_user=False,
            open=True,
        )
        for name, handler, summary in handlers
    )


def router_of(table: Sequence[RouteSpec], extra: Sequence[BaseRoute] = ()) -> list[BaseRoute]:
    """Starlette's routes: one for each path, so that a wrong method gets every allowed one in `Allow`."""
    paths: dict[str, dict[str, Operation]] = {}
    for spec in table:
        paths.setdefault(spec.path, {})[spec.method] = Operation(spec.handler, spec.deadline_seconds)
    return [
        *(Route(path, PathDoor(path, operations)) for path, operations in paths.items()),
        *extra,
        Mount("/", NoDoor()),
    ]
