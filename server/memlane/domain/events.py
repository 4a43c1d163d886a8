"""The ``memory_metadata`` payloads of the live feed, and the check that each passes before it is sent.

The stock client reads a payload without a check of its own. One that it cannot map (no ``memory`` object,
no ``invalidated`` object) makes its whole store fail for good: list, stream and writes. One with a retired
``memory`` brings the row back into the page. So what is sent is checked here, strictly and each time.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from memlane.domain.memory import CONTENT_MAX, THREAD_ID_MAX, THREAD_IDS_MAX, Memory, Position

Operation: TypeAlias = Literal["created", "updated", "invalidated"]
Payload: TypeAlias = dict[str, Any]

TENANT_ID_MAX = 256
"""Longest id of an organization or a project, in characters."""
EPOCH_MAX = 64
"""Longest epoch, in characters."""
SEQ_MAX = 2**53 - 1
"""Largest ``seq``: the largest integer that JavaScript holds exactly."""


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a channel's feed: whose it is, its place, and when it happened.

    Attributes:
        organization_id: The tenant's organization.
        project_id: The tenant's project.
        position: The change's ``seq`` and its channel's epoch.
        occurred_at: When the change was made; aware.
    """

    organization_id: str
    project_id: str
    position: Position
    occurred_at: datetime


def created(memory: Memory, change: Change) -> Payload:
    """The event of a new live memory.

    Raises:
        ValueError: A time is naive.
    """
    return _changed("created", memory, change)


def updated(memory: Memory, change: Change) -> Payload:
    """The event of a live memory that changed, or whose present state is sent again.

    Raises:
        ValueError: A time is naive.
    """
    return _changed("updated", memory, change)


def invalidated(memory_id: str, change: Change) -> Payload:
    """The event of a memory that was retired or erased. It carries the id and nothing of the text.

    Raises:
        ValueError: The time is naive.
    """
    return {**_envelope("invalidated", memory_id, change), "invalidated": {"id": memory_id}}


def present_state(memory: Memory, change: Change) -> Payload:
    """What a row that changed is now: `updated` while it is live, `invalidated` when it is retired.

    Raises:
        ValueError: A time is naive.
    """
    return updated(memory, change) if memory.live else invalidated(memory.id, change)


def rfc3339(moment: datetime) -> str:
    """The moment in UTC with ``Z``, to the microsecond.

    Raises:
        ValueError: The moment is naive, so that nobody knows when it was.
    """
    if moment.tzinfo is None:
        raise ValueError("The moment has no time zone; pass an aware datetime.")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def check_payload(payload: object) -> str | None:
    """Check a payload against its schema, strictly: no field missing, unknown or of another form.

    Args:
        payload: What is about to be sent.

    Returns:
        None when it is sound, else what is wrong: the path of the first bad field, never its value.
    """
    if type(payload) is not dict:
        return "payload: not an object"
    operation = payload.get("operation")
    fields = _PAYLOAD_OF.get(operation) if type(operation) is str else None
    if fields is None:
        return "operation: not one of created, updated, invalidated"
    fault = _fault_of(payload, fields, "")
    if fault:
        return fault
    if operation == "invalidated":
        return _fault_of(payload["invalidated"], _INVALIDATED, "invalidated.") or _mismatch(
            payload, "invalidated", ("id",)
        )
    return _fault_of(payload["memory"], _MEMORY, "memory.", _MEMORY_TIMES) or _mismatch(
        payload, "memory", ("id", "organizationId", "projectId")
    )


def _envelope(operation: Operation, memory_id: str, change: Change) -> Payload:
    return {
        "operation": operation,
        "memoryId": memory_id,
        "organizationId": change.organization_id,
        "projectId": change.project_id,
        "occurredAt": rfc3339(change.occurred_at),
        "seq": change.position.seq,
        "epoch": change.position.epoch,
    }


def _changed(operation: Operation, memory: Memory, change: Change) -> Payload:
    payload = _envelope(operation, memory.id, change)
    payload["memory"] = {
        "id": memory.id,
        "kind": memory.kind,
        "scope": memory.scope,
        "content": memory.content,
        "sourceThreadIds": list(memory.source_thread_ids),
        "invalidatedAt": _time_or_none(memory.invalidated_at),
        "createdAt": rfc3339(memory.created_at),
        "updatedAt": rfc3339(memory.updated_at),
        "recalledAt": _time_or_none(memory.recalled_at),
        "organizationId": change.organization_id,
        "projectId": change.project_id,
    }
    return payload


def _time_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


# The schema, as tables: each field's name and the check that its value must pass.

_Check: TypeAlias = Callable[[object], bool]

_MISSING = object()
_NO_FIELDS: Mapping[str, _Check] = {}
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")


def _is_object(value: object) -> bool:
    return type(value) is dict


def _is_id(value: object) -> bool:
    return type(value) is str and _ID.fullmatch(value) is not None


def _is_time(value: object) -> bool:
    return type(value) is str and _TIME.fullmatch(value) is not None


def _is_text(value: object, longest: int) -> bool:
    """A string of 1 to ``longest`` code points that is Unicode text: without a lone surrogate or NUL."""
    if type(value) is not str or not 0 < len(value) <= longest or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_threads(value: object) -> bool:
    return (
        type(value) is list
        and len(value) <= THREAD_IDS_MAX
        and all(_is_text(thread, THREAD_ID_MAX) for thread in value)
    )


_ENVELOPE: Mapping[str, _Check] = {
    "operation": lambda value: type(value) is str,
    "memoryId": _is_id,
    "organizationId": lambda value: _is_text(value, TENANT_ID_MAX),
    "projectId": lambda value: _is_text(value, TENANT_ID_MAX),
    "occurredAt": _is_time,
    "seq": lambda value: type(value) is int and 1 <= value <= SEQ_MAX,
    "epoch": lambda value: _is_text(value, EPOCH_MAX),
}
_PAYLOAD_OF: Mapping[str, Mapping[str, _Check]] = {
    "created": {**_ENVELOPE, "memory": _is_object},
    "updated": {**_ENVELOPE, "memory": _is_object},
    "invalidated": {**_ENVELOPE, "invalidated": _is_object},
}
_INVALIDATED: Mapping[str, _Check] = {"id": _is_id}
_MEMORY: Mapping[str, _Check] = {
    "id": _is_id,
    "kind": lambda value: type(value) is str and value in {"topical", "episodic", "operational"},
    "scope": lambda value: type(value) is str and value in {"user", "project"},
    "content": lambda value: _is_text(value, CONTENT_MAX),
    "sourceThreadIds": _are_threads,
    # A retired row is `invalidated` and nothing else: the stock client would show it as live.
    "invalidatedAt": lambda value: value is None,
    "organizationId": lambda value: _is_text(value, TENANT_ID_MAX),
    "projectId": lambda value: _is_text(value, TENANT_ID_MAX),
}
_MEMORY_TIMES: Mapping[str, _Check] = {
    "createdAt": _is_time,
    "updatedAt": _is_time,
    "recalledAt": lambda value: value is None or _is_time(value),
}


def _fault_of(
    value: Payload, required: Mapping[str, _Check], prefix: str, optional: Mapping[str, _Check] = _NO_FIELDS
) -> str | None:
    """The first field that is missing, unknown or bad."""
    for name, passes in required.items():
        if not passes(value.get(name, _MISSING)):
            return f"{prefix}{name}: {'bad value' if name in value else 'missing'}"
    if len(value) == len(required):
        return None
    for name, field in value.items():
        if name in required:
            continue
        if name not in optional:
            return f"{prefix}*: unknown field"
        if not optional[name](field):
            return f"{prefix}{name}: bad value"
    return None


def _mismatch(payload: Payload, body: str, names: Sequence[str]) -> str | None:
    """The first field of the body that does not repeat its twin beside it."""
    for name in names:
        if payload[body][name] != payload["memoryId" if name == "id" else name]:
            return f"{body}.{name}: differs from the envelope"
    return None
