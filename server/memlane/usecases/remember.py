"""Save a memory: a new row, or absorbed by the live one that says the same."""

import asyncio

from memlane.domain.caller import Caller
from memlane.domain.memory import Draft, WriteOutcome
from memlane.observability import metrics
from memlane.usecases.access import admit_write
from memlane.usecases.idempotency import first_answer, write_once
from memlane.usecases.judging import Patience, patience_since, prove, still_proven
from memlane.usecases.ports import ChannelWrite, EmbeddedText, Idempotency, Services
from memlane.usecases.saving import channel_of, store_or_absorb, word_beside_neighbours
from memlane.usecases.wording import embed_drafts


async def remember(
    services: Services, caller: Caller, draft: Draft, idempotency: Idempotency | None = None
) -> WriteOutcome:
    """Save a draft.

    Raises:
        Denied: The lane or the grant forbids it.
        SecretDetected: The draft or what was sent of its origin holds a credential; nothing was written.
        IdempotencyConflict: The key was used with another request.
        EmbedderUnavailable: Nothing was written.
        StorageUnavailable: Whether it was written is unknown only if the commit was under way; a retry with the
            same idempotency key is safe.
    """
    began = asyncio.get_running_loop().time()
    admit_write(services, caller, draft.scope)
    answered = await first_answer(services, caller, idempotency)
    if answered is not None:
        return answered
    (embedded,) = await embed_drafts(services, caller, [draft])
    return await save_embedded(services, caller, draft, embedded, idempotency, patience=patience_since(began))


async def save_embedded(
    services: Services,
    caller: Caller,
    draft: Draft,
    embedded: EmbeddedText,
    idempotency: Idempotency | None,
    *,
    patience: Patience,
) -> WriteOutcome:
    """Save a draft that is embedded already. Raises as `remember`."""
    channel = channel_of(caller, draft.scope)
    wording, similar = await word_beside_neighbours(services, caller, channel, draft, embedded)
    proven = await prove(services, channel, draft, wording, patience)

    async def act(write: ChannelWrite) -> WriteOutcome:
        twin = await write.find_twin(draft.kind, wording.absorb_key)
        if twin is not None:
            return await store_or_absorb(write, draft, wording, similar, twin)
        judged = await still_proven(write, proven)
        return await store_or_absorb(write, draft, wording, similar, judged, absorbed_by="judge")

    outcome = await write_once(services, caller, channel, idempotency, act)
    metrics.WRITES.labels("absorbed" if outcome.absorbed else "created").inc()
    return outcome
