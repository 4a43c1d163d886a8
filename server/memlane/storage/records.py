"""Rows of the database as the objects of the domain."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from memlane.domain.caller import KeyRecord
from memlane.domain.grant import Access, Grant
from memlane.domain.lane import Lane, LaneMode, Trust
from memlane.domain.memory import Memory, Position
from memlane.usecases.ports import ChannelHead, RecallPage, ScoredMemory, StoredMemory


class _Unfrozen:
    """A memory under construction, with the slots of one.

    Measured for a row of a list: 0.2 us this way (with the columns taken by name 0.4), 2.4 us through the `__init__`
    of a frozen dataclass. A list has up to 2,000 rows.
    """

    __slots__ = Memory.__slots__


_COLUMNS = itemgetter(
    "id", "kind", "scope", "content", "source_thread_ids", "created_at", "updated_at", "retired_at", "recalled_at"
)


def memory_of(row: Any) -> Memory:
    """A row that has the columns of a memory, in any order."""
    return memories_of((_COLUMNS(row),))[0]


def memories_of(rows: Iterable[Any]) -> list[Memory]:
    """Rows that begin with the columns of a memory, in the order of `_COLUMNS`."""
    memories: list[Any] = []
    for row in rows:
        memory: Any = _Unfrozen()
        (
            memory.id,
            memory.kind,
            memory.scope,
            memory.content,
            threads,
            memory.created_at,
            memory.updated_at,
            memory.invalidated_at,
            memory.recalled_at,
        ) = row[:9]
        memory.source_thread_ids = tuple(threads)
        memory.__class__ = Memory
        memories.append(memory)
    return memories


def stored_of(row: Any) -> StoredMemory:
    """A row that also has its seq and, where they were asked for, its absorb key and salt."""
    return StoredMemory(memory_of(row), row["seq"], row.get("absorb_key"), row.get("wording_salt"))


def head_of(row: Any, *, id_column: str = "id", scope_column: str = "scope") -> ChannelHead:
    """A row of the channels table."""
    return ChannelHead(row[id_column], row[scope_column], Position(row["epoch"], row["seq"]), row["join_code"])


def recall_page_of(rows: Sequence[Any]) -> RecallPage:
    """The rows of a recall; one without an id says only which terms are unseen."""
    found = [ScoredMemory(memory_of(row), row["score"]) for row in rows if row["id"] is not None]
    return RecallPage(found, tuple(rows[0]["unseen"]) if rows else ())


def key_of(row: Any) -> KeyRecord:
    """A row of `find_key`."""
    return KeyRecord(
        id=row["id"],
        short=row["short"],
        secret_sha256=row["secret_sha256"],
        organization_id=row["organization_id"],
        organization=row["organization"],
        plan_code=row["plan_code"],
        project_id=row["project_id"],
        project=row["project"],
        lane=Lane(row["lane_id"], row["lane_name"], Trust(row["trust"]), LaneMode(row["mode"])),
        grant=Grant(Access(row["user_access"]), Access(row["project_access"])),
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        screens_secrets=row["screen_secrets"],
        max_live_memories=row["max_live_memories"],
    )
