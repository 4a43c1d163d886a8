"""Replace a memory: the old row is retired and the new one made in one transaction."""

import asyncio

from memlane.domain.caller import Caller
from memlane.domain.errors import KindMismatch, MemoryNotFound
from memlane.domain.memory import AbsorbedBy, Draft, WriteOutcome
from memlane.observability import metrics
from memlane.usecases.access import admit_write
from memlane.usecases.idempotency import first_answer, write_once
from memlane.usecases.judging import patience_since, prove, still_proven
from memlane.usecases.ports import ChannelWrite, Idempotency, Services, StoredMemory
from memlane.usecases.saving import channel_of, new_memory_id, store_or_absorb, word_beside_neighbours
from memlane.usecases.wording import embed_drafts


async def supersede(
    services: Services, caller: Caller, target_id: str, draft: Draft, idempotency: Idempotency | None = None
) -> WriteOutcome:
    """Replace the live memory ``target_id`` by a draft of the same scope and kind.

    The answer's memory has a new id, or is another live memory that says the same; the target itself is no
    candidate for absorbing.

    Raises:
        Denied: The lane or the grant forbids it.
        MemoryNotFound: No live memory of that id in that scope is visible to this caller.
        KindMismatch: The target is of another kind.
        SecretDetected, IdempotencyConflict, EmbedderUnavailable, StorageUnavailable: As in `remember`.
    """
    began = asyncio.get_running_loop().time()
    admit_write(services, caller, draft.scope)
    answered = await first_answer(services, caller, idempotency)
    if answered is not None:
        return answered
    try:
        # A target that is not there needs no embedding; the decision that counts is made again under the lock.
        found = await services.store.find(caller.project_id, caller.user_id, (draft.scope,), target_id)
        _check_target(found, draft)
    except MemoryNotFound:
        # It may be gone because this very request was answered meanwhile: both were committed at once.
        answered = await first_answer(services, caller, idempotency)
        if answered is None:
            raise
        return answered
    (embedded,) = await embed_drafts(services, caller, [draft])
    channel = channel_of(caller, draft.scope)
    wording, similar = await word_beside_neighbours(services, caller, channel, draft, embedded, but_not=target_id)
    proven = await prove(services, channel, draft, wording, patience_since(began), but_not=target_id)

    async def act(write: ChannelWrite) -> WriteOutcome:
        target = _check_target(await write.find(target_id), draft)
        twin = await write.find_twin(draft.kind, wording.absorb_key, but_not=target_id)
        by: AbsorbedBy = "form" if twin is not None else "judge"
        twin = twin or await still_proven(write, proven)
        successor = new_memory_id() if twin is None else twin.memory.id
        await write.retire(target, superseded_by=successor)
        return await store_or_absorb(
            write, draft, wording, similar, twin, superseding=target_id, new_id=successor, absorbed_by=by
        )

    outcome = await write_once(services, caller, channel, idempotency, act)
    metrics.WRITES.labels("superseded").inc()
    return outcome


def _check_target(target: StoredMemory | None, draft: Draft) -> StoredMemory:
    if target is None or not target.memory.live:
        raise MemoryNotFound
    if target.memory.kind != draft.kind:
        raise KindMismatch(
            f"The memory is {target.memory.kind}; it can be superseded only by one of the same kind, not {draft.kind}."
        )
    return target
