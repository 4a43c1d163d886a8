"""The snapshot that a client starts from: rows and the positions that they stand at, of one moment."""

from dataclasses import dataclass
from datetime import datetime

from memlane.domain.caller import Caller
from memlane.domain.memory import Memory, Position, Scope
from memlane.usecases.access import require_some
from memlane.usecases.ports import Services

LIST_MAX = 2000
"""Most rows of one page, and the default (rest.md)."""


@dataclass(frozen=True, slots=True)
class MemoryList:
    """One page. ``next_before`` is where the next page begins, None on the last."""

    memories: list[Memory]
    positions: dict[Scope, Position]
    next_before: tuple[datetime, str] | None


async def list_memories(
    services: Services,
    caller: Caller,
    *,
    include_retired: bool = False,
    before: tuple[datetime, str] | None = None,
    limit: int = LIST_MAX,
) -> MemoryList:
    """The rows that the grant can read, by creation time then id, newest first.

    Raises:
        Denied: The lane is off, or the grant reads nothing.
        StorageUnavailable: The database does not answer.
    """
    scopes = require_some(caller, needs_write=False)
    heads, rows = await services.store.list_memories(
        caller.project_id,
        caller.user_id,
        scopes,
        include_retired=include_retired,
        before=before,
        limit=limit + 1,
    )
    services.hints.shown(caller.project_id, heads)
    page = rows[:limit]
    more = len(rows) > limit
    return MemoryList(
        memories=page,
        positions={head.scope: head.position for head in heads},
        next_before=(page[-1].created_at, page[-1].id) if more else None,
    )


async def list_positions(services: Services, caller: Caller) -> dict[Scope, Position]:
    """Only the positions: enough to tell whether a list has changed. Raises as `list_memories`."""
    scopes = require_some(caller, needs_write=False)
    heads = await services.store.heads(caller.project_id, caller.user_id, scopes)
    return {head.scope: head.position for head in heads}
