import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.events import (
    Change,
    check_payload,
    created,
    invalidated,
    present_state,
    rfc3339,
    updated,
)
from memlane.domain.memory import Memory, Position

NOON = datetime(2025, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
ID = "0195512e-7a00-7000-8000-000000000001"
OTHER_ID = "0195512e-7a00-7000-8000-000000000002"
MEMORY = Memory(ID, "topical", "user", "Likes tea.", ("t1", "t2"), NOON, NOON)
CHANGE = Change("org", "project", Position("e1", 7), NOON)


def test_created_carries_the_whole_memory_and_its_tenant() -> None:
    assert created(MEMORY, CHANGE) == {
        "operation": "created",
        "memoryId": ID,
        "organizationId": "org",
        "projectId": "project",
        "occurredAt": "2025-03-01T12:00:00.000005Z",
        "seq": 7,
        "epoch": "e1",
        "memory": {
            "id": ID,
            "kind": "topical",
            "scope": "user",
            "content": "Likes tea.",
            "sourceThreadIds": ["t1", "t2"],
            "invalidatedAt": None,
            "createdAt": "2025-03-01T12:00:00.000005Z",
            "updatedAt": "2025-03-01T12:00:00.000005Z",
            "recalledAt": None,
            "organizationId": "org",
            "projectId": "project",
        },
    }


def test_updated_differs_from_created_in_the_operation_alone() -> None:
    assert updated(MEMORY, CHANGE) == created(MEMORY, CHANGE) | {"operation": "updated"}


def test_invalidated_carries_the_id_and_nothing_of_the_text() -> None:
    payload = invalidated(ID, CHANGE)
    assert payload["invalidated"] == {"id": ID}
    assert set(payload) == {
        "operation",
        "memoryId",
        "organizationId",
        "projectId",
        "occurredAt",
        "seq",
        "epoch",
        "invalidated",
    }


def test_the_present_state_of_a_live_row_is_updated_and_of_a_retired_one_invalidated() -> None:
    assert present_state(MEMORY, CHANGE) == updated(MEMORY, CHANGE)
    retired = replace(MEMORY, invalidated_at=NOON)
    assert present_state(retired, CHANGE) == invalidated(ID, CHANGE)


def test_a_time_is_told_in_utc() -> None:
    assert rfc3339(NOON.astimezone(timezone(timedelta(hours=2)))) == "2025-03-01T12:00:00.000005Z"


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        rfc3339(NOON.replace(tzinfo=None))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=50)
moments = st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - made aware
memories = st.builds(
    Memory,
    id=st.uuids().map(str),
    kind=st.sampled_from(["topical", "episodic", "operational"]),
    scope=st.sampled_from(["user", "project"]),
    content=texts,
    source_thread_ids=st.lists(texts, max_size=5).map(tuple),
    created_at=moments,
    updated_at=moments,
    invalidated_at=st.none(),
    recalled_at=st.none() | moments,
)
changes = st.builds(
    Change,
    organization_id=texts,
    project_id=texts,
    position=st.builds(Position, epoch=texts, seq=st.integers(1, 2**53 - 1)),
    occurred_at=moments,
)


@given(memories, changes)
def test_what_the_builders_make_of_a_valid_row_passes_the_check(memory: Memory, change: Change) -> None:
    for payload in (created(memory, change), updated(memory, change), invalidated(memory.id, change)):
        assert check_payload(payload) is None
        assert check_payload(json.loads(json.dumps(payload))) is None


def test_a_retired_memory_is_never_sent_as_live() -> None:
    fault = check_payload(updated(replace(MEMORY, invalidated_at=NOON), CHANGE))
    assert fault == "memory.invalidatedAt: bad value"


def test_a_memory_without_the_times_beyond_the_contract_passes() -> None:
    payload = created(MEMORY, CHANGE)
    for name in ("createdAt", "updatedAt", "recalledAt"):
        del payload["memory"][name]
    assert check_payload(payload) is None


@pytest.mark.parametrize("payload", [None, [], "x", 1, {}, {"operation": "deleted"}, {"operation": []}])
def test_what_is_no_event_fails_the_check(payload: object) -> None:
    assert check_payload(payload) is not None


BUILT: list[Callable[[], dict[str, Any]]] = [
    lambda: created(MEMORY, CHANGE),
    lambda: updated(MEMORY, CHANGE),
    lambda: invalidated(ID, CHANGE),
]


@pytest.mark.parametrize("build", BUILT)
def test_a_missing_field_fails_the_check(build: Callable[[], dict[str, Any]]) -> None:
    optional = {"createdAt", "updatedAt", "recalledAt"}
    for name in build():
        payload = build()
        del payload[name]
        assert check_payload(payload) is not None, name
    body = "invalidated" if "invalidated" in build() else "memory"
    for name in set(build()[body]) - optional:
        payload = build()
        del payload[body][name]
        assert check_payload(payload) == f"{body}.{name}: missing"


@pytest.mark.parametrize("build", BUILT)
def test_an_unknown_field_fails_the_check(build: Callable[[], dict[str, Any]]) -> None:
    payload = build() | {"embedding": [0.1]}
    assert check_payload(payload) == "*: unknown field"
    payload = build()
    body = "invalidated" if "invalidated" in payload else "memory"
    payload[body]["embedding"] = [0.1]
    assert check_payload(payload) == f"{body}.*: unknown field"


def test_a_payload_has_either_a_memory_or_an_invalidated_id() -> None:
    both = created(MEMORY, CHANGE) | {"invalidated": {"id": ID}}
    assert check_payload(both) == "*: unknown field"


BAD_FIELDS: list[tuple[str, Any]] = [
    ("memoryId", ""),
    ("memoryId", ID.upper()),
    ("memoryId", OTHER_ID),
    ("organizationId", ""),
    ("organizationId", "another"),
    ("projectId", None),
    ("projectId", "p" * 257),
    ("occurredAt", "2025-03-01 12:00:00Z"),
    ("occurredAt", "2025-03-01T12:00:00+00:00"),
    ("seq", 0),
    ("seq", True),
    ("seq", 1.0),
    ("seq", 2**53),
    ("epoch", ""),
    ("epoch", 5),
    ("memory", None),
    ("memory", []),
]
BAD_MEMORY_FIELDS: list[tuple[str, Any]] = [
    ("id", OTHER_ID),
    ("id", 1),
    ("kind", "fact"),
    ("kind", []),
    ("scope", "team"),
    ("content", ""),
    ("content", None),
    ("content", "c" * 8193),
    ("content", "a\0b"),
    ("content", "\ud800"),
    ("sourceThreadIds", None),
    ("sourceThreadIds", ("t1",)),
    ("sourceThreadIds", [""]),
    ("sourceThreadIds", [1]),
    ("sourceThreadIds", ["t" * 257]),
    ("sourceThreadIds", ["t"] * 101),
    ("invalidatedAt", "2025-03-01T12:00:00Z"),
    ("invalidatedAt", False),
    ("createdAt", None),
    ("updatedAt", "yesterday"),
    ("recalledAt", 0),
    ("organizationId", "another"),
    ("projectId", ""),
]


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_a_bad_field_fails_the_check_and_is_named(name: str, value: object) -> None:
    fault = check_payload(created(MEMORY, CHANGE) | {name: value})
    assert fault is not None
    assert name in fault or "differs from the envelope" in fault


@pytest.mark.parametrize(("name", "value"), BAD_MEMORY_FIELDS)
def test_a_bad_field_of_the_memory_fails_the_check_and_is_named(name: str, value: object) -> None:
    payload = created(MEMORY, CHANGE)
    payload["memory"][name] = value
    fault = check_payload(payload)
    assert fault is not None
    assert fault.startswith(f"memory.{name}: ")


def test_an_invalidated_id_must_be_the_memory_id() -> None:
    payload = invalidated(ID, CHANGE) | {"invalidated": {"id": OTHER_ID}}
    assert check_payload(payload) == "invalidated.id: differs from the envelope"


def test_a_fault_never_quotes_the_text() -> None:
    payload = created(replace(MEMORY, content="my secret" * 1000), CHANGE)
    assert check_payload(payload) == "memory.content: bad value"


@given(st.recursive(st.none() | st.text() | st.integers(), lambda i: st.dictionaries(st.text(), i), max_leaves=9))
def test_the_check_never_raises(payload: object) -> None:
    assert check_payload(payload) is not None
