"""Bring memories of an export into a project, with their ids and dates; repeating it changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memlane.domain.caller import Caller
from memlane.domain.memory import Draft, united_threads, without_repeats
from memlane.usecases.access import admit_write
from memlane.usecases.ports import ChannelWrite, Services, Wording
from memlane.usecases.saving import channel_of
from memlane.usecases.wording import embed_drafts, word


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """One line of an export."""

    id: str
    user_id: str
    draft: Draft
    created_at: datetime
    retired: bool


@dataclass(frozen=True, slots=True)
class ImportCount:
    """What an import did: rows written, absorbed by a live one, and already there."""

    written: int = 0
    absorbed: int = 0
    present: int = 0

    def plus(self, other: "ImportCount") -> "ImportCount":
        """The sum."""
        return ImportCount(self.written + other.written, self.absorbed + other.absorbed, self.present + other.present)


async def import_memories(services: Services, operator: Caller, memories: Sequence[ImportedMemory]) -> ImportCount:
    """Import one chunk; each memory is a write of its own, so a broken run is simply repeated.

    Args:
        services: What to work with.
        operator: On whose behalf; the user is taken from each memory.
        memories: At most `EMBED_MAX`: they are embedded in one call.

    Raises:
        Denied: The operator's lane does not write.
        SecretDetected: One of them holds a credential; none was written.
        EmbedderUnavailable, StorageUnavailable: What was written stays; run it again.
    """
    admit_write(services, operator)
    present = await services.store.present_ids(operator.project_id, [memory.id for memory in memories])
    count = ImportCount(present=len(present))
    for user_id in dict.fromkeys(memory.user_id for memory in memories):
        mine = [memory for memory in memories if memory.user_id == user_id and memory.id not in present]
        # The absorb key of a text can depend on the user that it belongs to.
        caller = Caller(operator.key, user_id, operator.grant, operator.request_id, operator.provenance)
        if mine:
            texts = await embed_drafts(services, caller, [memory.draft for memory in mine])
            for memory, embedded in zip(mine, texts, strict=True):
                wording = word(caller, memory.draft, embedded, services.clock.now())
                count = count.plus(await _import_one(services, caller, memory, wording))
    return count


async def _import_one(services: Services, caller: Caller, memory: ImportedMemory, wording: Wording) -> ImportCount:
    draft = memory.draft

    async def act(write: ChannelWrite) -> ImportCount:
        if await write.find(memory.id) is not None:
            return ImportCount(present=1)
        twin = None if memory.retired else await write.find_twin(draft.kind, wording.absorb_key)
        if twin is not None:
            threads = united_threads(draft.source_thread_ids, twin.memory.source_thread_ids)
            if set(threads) == set(twin.memory.source_thread_ids):
                return ImportCount(absorbed=1)
            await write.absorb(twin, wording, threads, "form")
            return ImportCount(absorbed=1)
        # A live twin must not stand in the way of a row that is retired in this very transaction: such a row gets
        # its key when it is retired, so that a restore still finds the twin.
        key = None if memory.retired else wording.absorb_key
        stored = await write.insert(
            memory.id,
            draft.kind,
            replace(wording, absorb_key=key),
            without_repeats(draft.source_thread_ids),
            memory.created_at,
        )
        if memory.retired:
            await write.retire(stored)
            await write.keep_absorb_key(memory.id, wording.absorb_key)
        return ImportCount(written=1)

    return await services.store.in_channel(caller, channel_of(caller, draft.scope), act)
