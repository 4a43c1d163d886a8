"""What every save shares: the channel, the close neighbours, and the decision under the lock."""

import uuid_utils

from memlane.domain.caller import Caller
from memlane.domain.memory import AbsorbedBy, Draft, Position, Scope, Similar, WriteOutcome, united_threads
from memlane.usecases.ports import ChannelRef, ChannelWrite, Services, StoredMemory, Wording


def channel_of(caller: Caller, scope: Scope) -> ChannelRef:
    """The channel that a caller's write in this scope goes to."""
    return ChannelRef(caller.project_id, scope, "" if scope == "project" else caller.user_id)


def new_memory_id() -> str:
    """A UUIDv7: ids grow with time, so new rows land at the end of the index."""
    return str(uuid_utils.uuid7())


async def close_neighbours(
    services: Services, channel: ChannelRef, draft: Draft, wording: Wording, *, but_not: str | None = None
) -> tuple[Similar, ...]:
    """Close live neighbours for the answer. Read before the lock, so that the lock is held for milliseconds."""
    return await services.store.find_similar(
        channel,
        draft.kind,
        space_id=wording.space_id,
        embedding=wording.embedding,
        at_least=services.embedder.close_similarity,
        but_not=but_not,
    )


async def store_or_absorb(
    write: ChannelWrite,
    draft: Draft,
    wording: Wording,
    similar: tuple[Similar, ...],
    twin: StoredMemory | None,
    *,
    superseding: str | None = None,
    new_id: str | None = None,
    absorbed_by: AbsorbedBy = "form",
) -> WriteOutcome:
    """Write what a save comes to, under the channel's lock.

    Args:
        write: The locked channel.
        draft: What to save.
        wording: What was derived from it.
        similar: Close neighbours, told when a row is stored.
        twin: The live row that says the same, looked for under this lock.
        superseding: The row that this one replaces.
        new_id: The id of the row to store; a new one by default.
        absorbed_by: What proved that the twin says the same.
    """
    if twin is None:
        stored = await write.insert(new_id or new_memory_id(), draft.kind, wording, draft.source_thread_ids)
        position = Position(write.epoch, stored.seq)
        return WriteOutcome(stored.memory, position, similar=similar, retired_id=superseding)
    threads = united_threads(twin.memory.source_thread_ids, draft.source_thread_ids)
    stored = await write.absorb(twin, wording, threads, absorbed_by)
    position = Position(write.epoch, stored.seq)
    return WriteOutcome(stored.memory, position, absorbed=True, absorbed_by=absorbed_by, retired_id=superseding)
