"""Save several memories in one call; each is its own write with its own outcome."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from memlane.domain.caller import Caller
from memlane.domain.errors import MemlaneError, StorageUnavailable, Unavailable
from memlane.domain.memory import Draft, WriteOutcome
from memlane.usecases.access import admit_write
from memlane.usecases.idempotency import first_answer
from memlane.usecases.judging import BATCH_JUDGE_SECONDS, Patience
from memlane.usecases.ports import Idempotency, Services
from memlane.usecases.remember import save_embedded
from memlane.usecases.screening import refuse_secrets
from memlane.usecases.wording import embed_drafts

CHUNK = 16
"""Texts that are embedded in one call: each call has the embedder's whole time limit."""
BATCH_SECONDS = 9.0
"""No new chunk is begun after this: with the work under way the answer stays under the 15 s of rest.md."""


async def remember_batch(
    services: Services,
    caller: Caller,
    drafts: Sequence[Draft],
    idempotency: Idempotency | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[WriteOutcome | MemlaneError]:
    """Save drafts in order. A write that fails gives its error in place of an outcome and stops no other.

    Raises:
        Denied: The lane or the grant forbids one of them; then none is written.
        SecretDetected: One of them, or what was sent of their origin, holds a credential; then none is written.
        IdempotencyConflict: The key was used with another batch; then none is written.
        Unavailable: The embedder or the database did not answer for any of them; then none is written.
    """
    admit_write(services, caller, *(draft.scope for draft in drafts))
    refuse_secrets(services, caller, drafts, batch=True)
    began = monotonic()
    writes = [(draft, _part(idempotency, place)) for place, draft in enumerate(drafts)]
    answered = [await first_answer(services, caller, part) for _, part in writes]
    left = [write for write, answer in zip(writes, answered, strict=True) if answer is None]
    written: list[WriteOutcome | MemlaneError] = []
    patience = Patience(BATCH_JUDGE_SECONDS)
    for start in range(0, len(left), CHUNK):
        chunk = left[start : start + CHUNK]
        if monotonic() - began > BATCH_SECONDS:
            written += [StorageUnavailable("The batch took too long; send this memory again.")] * len(chunk)
        else:
            written += await _remember_chunk(services, caller, chunk, patience)
    new = iter(written)
    outcomes = [next(new) if answer is None else answer for answer in answered]
    if all(isinstance(outcome, Unavailable) for outcome in outcomes) and isinstance(outcomes[0], Unavailable):
        raise outcomes[0]
    return outcomes


def _part(idempotency: Idempotency | None, place: int) -> Idempotency | None:
    """The key of one write: no caller can send one with a line break. It stands for the whole request."""
    return idempotency and replace(idempotency, key=f"{idempotency.key}\n{place}")


async def _remember_chunk(
    services: Services, caller: Caller, chunk: Sequence[tuple[Draft, Idempotency | None]], patience: Patience
) -> list[WriteOutcome | MemlaneError]:
    try:
        texts = await embed_drafts(services, caller, [draft for draft, _ in chunk], screened=True)
    except Unavailable as fault:
        return [fault] * len(chunk)
    outcomes: list[WriteOutcome | MemlaneError] = []
    for (draft, idempotency), embedded in zip(chunk, texts, strict=True):
        try:
            outcomes.append(await save_embedded(services, caller, draft, embedded, idempotency, patience=patience))
        except MemlaneError as fault:
            outcomes.append(fault)
    return outcomes
