"""The memory routes: each translates HTTP to one use case and its outcome back."""

import time
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from memlane.domain.caller import Caller
from memlane.domain.hashing import request_sha256
from memlane.domain.memory import Draft, Position, Scope
from memlane.rest.bodies import (
    Json,
    batch_body,
    encode,
    list_body,
    memory_body,
    provenance_body,
    recall_body,
    written_body,
)
from memlane.rest.credentials import caller_of
from memlane.rest.idempotency import idempotency_of
from memlane.rest.models import Empty, ListQuery, MemoryBatch, MemoryDraft, RecallRequest
from memlane.rest.parsing import (
    decode_cursor,
    encode_cursor,
    memory_id_of,
    parse_body,
    parse_query,
    raw_query,
    refuse_query,
)
from memlane.usecases.access import require_some
from memlane.usecases.authenticate import Gate
from memlane.usecases.forget import forget
from memlane.usecases.list_memories import list_memories, list_positions
from memlane.usecases.ports import Services
from memlane.usecases.read_memory import read_memory, read_provenance
from memlane.usecases.recall import RecallQuery, recall
from memlane.usecases.remember import remember
from memlane.usecases.remember_batch import remember_batch
from memlane.usecases.restore import restore
from memlane.usecases.screening import refuse_secrets_of_body
from memlane.usecases.subscribe import subscribe, unsubscribe
from memlane.usecases.supersede import supersede

M = TypeVar("M", bound=BaseModel)


def json_response(body: Json, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(encode(body), status_code=status, media_type="application/json")


@dataclass(frozen=True, slots=True)
class MemoryHandlers:
    """The handlers of `/api/memories`. Lane and grant are checked before the body is read."""

    services: Services
    gate: Gate

    async def list(self, request: Request) -> Response:
        """GET /api/memories."""
        caller = await caller_of(request, self.gate)
        scopes = require_some(caller, needs_write=False)
        query = parse_query(request, ListQuery)
        before = None if query.cursor is None else decode_cursor(query.cursor)
        known = request.headers.get("if-none-match")
        if known is not None:
            etag = _etag(await list_positions(self.services, caller), scopes, raw_query(request))
            if _matches(known, etag):
                return Response(status_code=304, headers={"ETag": etag})
        page = await list_memories(
            self.services,
            caller,
            include_retired=query.includeInvalidated is not None,
            before=before,
            limit=query.limit,
        )
        next_cursor = None if page.next_before is None else encode_cursor(page.next_before)
        response = json_response(list_body(page, next_cursor))
        response.headers["ETag"] = _etag(page.positions, scopes, raw_query(request))
        return response

    async def create(self, request: Request) -> Response:
        """POST /api/memories."""
        caller = await caller_of(request, self.gate, writes=1)
        require_some(caller, needs_write=True)
        refuse_query(request)
        body = await self._parsed(request, caller, MemoryDraft)
        outcome = await remember(self.services, caller, _draft(body), idempotency_of(request, body))
        return json_response(written_body(outcome), 201)

    async def create_batch(self, request: Request) -> Response:
        """POST /api/memories/batch."""
        began = time.monotonic()
        caller = await caller_of(request, self.gate)
        require_some(caller, needs_write=True)
        refuse_query(request)
        body = await self._parsed(request, caller, MemoryBatch)
        drafts = [_draft(one) for one in body.memories]
        # Each memory is a write of its own. All at once: a batch that no burst holds is charged a whole burst, which
        # fits behind nothing, not behind a first write either.
        await self.gate.require_rate(caller, requests=0, writes=len(drafts))
        outcomes = await remember_batch(self.services, caller, drafts, idempotency_of(request, body), began=began)
        return json_response(batch_body(outcomes, caller.request_id))

    async def read(self, request: Request) -> Response:
        """GET /api/memories/{id}."""
        caller = await caller_of(request, self.gate)
        require_some(caller, needs_write=False)
        refuse_query(request)
        return json_response(memory_body(await read_memory(self.services, caller, memory_id_of(request))))

    async def replace(self, request: Request) -> Response:
        """PATCH /api/memories/{id}."""
        caller = await caller_of(request, self.gate, writes=1)
        require_some(caller, needs_write=True)
        refuse_query(request)
        body = await self._parsed(request, caller, MemoryDraft)
        outcome = await supersede(
            self.services, caller, memory_id_of(request), _draft(body), idempotency_of(request, body)
        )
        return json_response(written_body(outcome))

    async def retire(self, request: Request) -> Response:
        """DELETE /api/memories/{id}."""
        caller = await caller_of(request, self.gate, writes=1)
        require_some(caller, needs_write=True)
        refuse_query(request)
        await forget(self.services, caller, memory_id_of(request))
        return Response(status_code=204)

    async def restore(self, request: Request) -> Response:
        """POST /api/memories/{id}/restore."""
        caller = await caller_of(request, self.gate, writes=1)
        require_some(caller, needs_write=True)
        refuse_query(request)
        outcome = await restore(self.services, caller, memory_id_of(request), idempotency_of(request, Empty()))
        return json_response(written_body(outcome))

    async def recall(self, request: Request) -> Response:
        """POST /api/memories/recall."""
        caller = await caller_of(request, self.gate)
        require_some(caller, needs_write=False)
        refuse_query(request)
        body = await parse_body(request, RecallRequest)
        query = RecallQuery(
            text=body.query,
            limit=body.limit,
            scope=body.scope,
            kind=body.kind,
            min_score=body.minScore or 0.0,
            strict=body.strict,
        )
        return json_response(recall_body(await recall(self.services, caller, query)))

    async def subscribe(self, request: Request) -> Response:
        """POST /api/memories/subscribe."""
        caller = await caller_of(request, self.gate)
        require_some(caller, needs_write=False)
        refuse_query(request)
        await parse_body(request, Empty, may_be_empty=True)
        tickets = await subscribe(self.services, caller)
        body: Json = {}
        if "user" in tickets:
            body |= {"joinToken": tickets["user"].token, "joinCode": tickets["user"].join_code}
        if "project" in tickets:
            body |= {
                "projectJoinToken": tickets["project"].token,
                "projectJoinCode": tickets["project"].join_code,
            }
        return json_response(body)

    async def unsubscribe(self, request: Request) -> Response:
        """DELETE /api/memories/subscribe."""
        caller = await caller_of(request, self.gate)
        require_some(caller, needs_write=False)
        refuse_query(request)
        await unsubscribe(self.services, caller)
        return Response(status_code=204)

    async def provenance(self, request: Request) -> Response:
        """GET /api/memories/{id}/provenance."""
        caller = await caller_of(request, self.gate)
        require_some(caller, needs_write=False)
        refuse_query(request)
        entries = await read_provenance(self.services, caller, memory_id_of(request))
        return json_response(provenance_body(entries))

    async def _parsed(self, request: Request, caller: Caller, model: type[M]) -> M:
        """The body of a write. A secret in it is told first, whatever else is wrong."""
        return await parse_body(
            request, model, before_faults=lambda body: refuse_secrets_of_body(self.services, caller, body)
        )


def _draft(body: MemoryDraft) -> Draft:
    return Draft(
        content=body.content,
        kind=body.kind,
        scope=body.scope,
        source_thread_ids=tuple(body.sourceThreadIds),
    )


def _etag(positions: dict[Scope, Position], scopes: tuple[Scope, ...], query: str) -> str:
    parts = [f"{scope}:{positions[scope].epoch}:{positions[scope].seq}" for scope in sorted(positions)]
    return f'"{request_sha256(*parts, *scopes, query).hex()[:32]}"'


def _matches(header: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags
