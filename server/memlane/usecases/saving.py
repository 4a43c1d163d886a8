"""What every save shares: the channel, the close neighbours, and the decision under the lock."""

import asyncio

import uuid_utils

from memlane.domain.caller import Caller
from memlane.domain.memory import (
    AbsorbedBy,
    Draft,
    Position,
    Scope,
    Similar,
    WriteOutcome,
    united_threads,
    without_repeats,
)
from memlane.usecases.ports import ChannelRef, ChannelWrite, EmbeddedText, Services, StoredMemory, Wording
from memlane.usecases.wording import word


def channel_of(caller: Caller, scope: Scope) -> ChannelRef:
    """The channel that a caller's write in this scope goes to."""
    return ChannelRef(caller.project_id, scope, "" if scope == "project" else caller.user_id)


def new_memory_id() -> str:
    """A UUIDv7: ids grow with time, so new rows land at the end of the index."""
    return str(uuid_utils.uuid7())


async def word_beside_neighbours(
    services: Services,
    caller: Caller,
    channel: ChannelRef,
    draft: Draft,
    embedded: EmbeddedText,
    *,
    but_not: str | None = None,
) -> tuple[Wording, tuple[Similar, ...]]:
    """What is derived from the text, made while the database looks for close live neighbours for the answer.

    Both come before the lock, so that the lock is held for milliseconds.

    Raises:
        StorageUnavailable: The neighbours cannot be read.
    """

    async def derive() -> Wording:
        # The loop sends what was written at the end of its turn: the question goes out first.
        await asyncio.sleep(0)
        return word(caller, draft, embedded, services.clock.now())

    similar, wording = await asyncio.gather(
        services.store.find_similar(
            channel,
            draft.kind,
            space_id=embedded.space_id,
            embedding=embedded.embedding,
            at_least=services.embedder.close_similarity,
            but_not=but_not,
        ),
        derive(),
    )
    return wording, similar


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
        threads = without_repeats(draft.source_thread_ids)
        stored = await write.insert(new_id or new_memory_id(), draft.kind, wording, threads)
        position = Position(write.epoch, stored.seq)
        return WriteOutcome(stored.memory, position, similar=similar, retired_id=superseding)
    threads = united_threads(twin.memory.source_thread_ids, draft.source_thread_ids)
    stored = await write.absorb(twin, wording, threads, absorbed_by)
    position = Position(write.epoch, stored.seq)
    return WriteOutcome(stored.memory, position, absorbed=True, absorbed_by=absorbed_by, retired_id=superseding)
