"""Objects of the domain as the wire's JSON objects; `encode` writes times in RFC 3339 with Z."""

from typing import Any

import orjson

from memlane.domain.errors import MemlaneError, ValidationFailed
from memlane.domain.memory import Memory, WriteOutcome
from memlane.usecases.list_memories import MemoryList
from memlane.usecases.ports import LedgerEntry
from memlane.usecases.recall import Recalled

Json = dict[str, Any]


def encode(body: Json) -> bytes:
    """JSON in UTF-8."""
    return orjson.dumps(body, option=orjson.OPT_UTC_Z)


def memory_body(memory: Memory) -> Json:
    """See `models.MemoryBody`."""
    return {
        "id": memory.id,
        "kind": memory.kind,
        "scope": memory.scope,
        "content": memory.content,
        "sourceThreadIds": memory.source_thread_ids,
        "invalidatedAt": memory.invalidated_at,
        "createdAt": memory.created_at,
        "updatedAt": memory.updated_at,
        "recalledAt": memory.recalled_at,
    }


def written_body(outcome: WriteOutcome) -> Json:
    """See `models.WrittenMemory` and `models.SupersededMemory`."""
    body = memory_body(outcome.memory)
    if outcome.retired_id is not None:
        body["retiredId"] = outcome.retired_id
    body["absorbed"] = outcome.absorbed
    if outcome.absorbed:
        body["absorbedBy"] = outcome.absorbed_by
    else:
        body["similar"] = [{"id": near.id, "score": near.score} for near in outcome.similar]
    body["epoch"] = outcome.position.epoch
    body["seq"] = outcome.position.seq
    return body


def error_body(fault: MemlaneError, request_id: str) -> Json:
    """See `models.ErrorBody`."""
    detail: Json = {"code": fault.code, "message": fault.message, "requestId": request_id}
    if isinstance(fault, ValidationFailed) and fault.details:
        detail["details"] = [{"path": one.path, "message": one.message} for one in fault.details]
    return {"error": detail}


def batch_body(outcomes: list[WriteOutcome | MemlaneError], request_id: str) -> Json:
    """See `models.BatchBody`."""
    return {
        "outcomes": [
            written_body(outcome) if isinstance(outcome, WriteOutcome) else error_body(outcome, request_id)
            for outcome in outcomes
        ]
    }


def list_body(page: MemoryList, next_cursor: str | None) -> Json:
    """See `models.MemoryListBody`."""
    body: Json = {
        "memories": [memory_body(memory) for memory in page.memories],
        "positions": {
            scope: {"epoch": position.epoch, "seq": position.seq} for scope, position in page.positions.items()
        },
    }
    if next_cursor is not None:
        body["nextCursor"] = next_cursor
    return body


def recall_body(recalled: Recalled) -> Json:
    """See `models.RecallBody`."""
    body: Json = {"memories": [{**memory_body(one.memory), "score": one.score} for one in recalled.memories]}
    if recalled.degraded:
        body["degraded"] = list(recalled.degraded)
    return body


def provenance_body(entries: list[LedgerEntry]) -> Json:
    """See `models.ProvenanceBody`."""
    return {
        "writes": [
            {
                "operation": entry.operation,
                "absorbedBy": entry.absorbed_by,
                "lane": entry.lane,
                "keyId": entry.key_id,
                "run": entry.run,
                "sourceType": entry.source_type,
                "sourceId": entry.source_id,
                "sourceTrust": entry.source_trust,
                "triggeredBy": entry.triggered_by,
                "requestId": entry.request_id,
                "writtenAt": entry.written_at,
                "seq": entry.seq,
                "beforeSha256": entry.before_sha256,
                "afterSha256": entry.after_sha256,
            }
            for entry in entries
        ]
    }
