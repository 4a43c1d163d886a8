"""Save several memories in one call; each is its own write with its own outcome."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from memlane.domain.caller import Caller
from memlane.domain.errors import MemlaneError, Unavailable
from memlane.domain.memory import Draft, Scope, WriteOutcome
from memlane.usecases.access import admit_write
from memlane.usecases.batch_time import BatchTime
from memlane.usecases.idempotency import first_answer
from memlane.usecases.judging import BATCH_JUDGE_SECONDS, Patience
from memlane.usecases.ports import EmbeddedText, Idempotency, Services
from memlane.usecases.remember import save_embedded
from memlane.usecases.screening import refuse_secrets
from memlane.usecases.wording import EMBED_MAX, embed_drafts

WRITE_SECONDS = 1.5
"""What judges leave to the write that they were asked for: a slow judge never costs a memory."""


async def remember_batch(
    services: Services,
    caller: Caller,
    drafts: Sequence[Draft],
    idempotency: Idempotency | None = None,
    *,
    began: float | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[WriteOutcome | MemlaneError]:
    """Save drafts in order. A write that fails gives its error in place of an outcome.

    After one that found its channel unavailable no other of that channel is tried, and after an embedder that did
    not answer none at all: they get the same error at once. So the answer tells of each draft, and comes in time
    (`BatchTime`).

    Args:
        services: What to work with.
        caller: Whose they are.
        drafts: What to save.
        idempotency: The key of the whole batch.
        began: When the request came, by ``monotonic``; now by default.
        monotonic: Gives the time in seconds.

    Raises:
        Denied: The lane or the grant forbids one of them; then none is written.
        SecretDetected: One of them, or what was sent of their origin, holds a credential; then none is written.
        IdempotencyConflict: The key was used with another batch; then none is written.
        Unavailable: The embedder or the database did not answer for any of them; then none is written.
    """
    limit = BatchTime(monotonic() if began is None else began, monotonic)
    admit_write(services, caller, *(draft.scope for draft in drafts))
    refuse_secrets(services, caller, drafts, batch=True)
    writes = [_Write(draft, _part(idempotency, place)) for place, draft in enumerate(drafts)]
    for write in writes:
        write.outcome = await limit.run(partial(first_answer, services, caller, write.idempotency))
        limit.moved()
    left = [write for write in writes if write.outcome is None]
    batch = _Batch(services, caller, limit)
    for start in range(0, len(left), EMBED_MAX):
        await batch.save(left[start : start + EMBED_MAX])
    outcomes = [write.outcome for write in writes if write.outcome is not None]
    if all(isinstance(outcome, Unavailable) for outcome in outcomes) and isinstance(outcomes[0], Unavailable):
        raise outcomes[0]
    return outcomes


def _part(idempotency: Idempotency | None, place: int) -> Idempotency | None:
    """The key of one write: no caller can send one with a line break. It stands for the whole request."""
    return idempotency and replace(idempotency, key=f"{idempotency.key}\n{place}")


@dataclass(slots=True)
class _Write:
    draft: Draft
    idempotency: Idempotency | None
    outcome: WriteOutcome | MemlaneError | None = None


@dataclass(slots=True)
class _Batch:
    """What the writes of a batch share: its time, its patience with judges, and what is known to be down."""

    services: Services
    caller: Caller
    limit: BatchTime
    patience: Patience = field(default_factory=lambda: Patience(BATCH_JUDGE_SECONDS))
    down: dict[Scope, Unavailable] = field(default_factory=dict)

    async def save(self, chunk: Sequence[_Write]) -> None:
        embedded = await self._embed([write.draft for write in chunk if write.draft.scope not in self.down])
        for write in chunk:
            write.outcome = self.down.get(write.draft.scope) or await self._save(write, embedded)

    async def _embed(self, drafts: Sequence[Draft]) -> dict[str, EmbeddedText]:
        """The drafts' texts with their vectors; without them both channels are down."""
        if not drafts:
            return {}
        try:
            texts = await self.limit.run(partial(embed_drafts, self.services, self.caller, drafts, screened=True))
        except Unavailable as fault:
            self._note(fault, "user", "project")
            return {}
        return {text.content: text for text in texts}

    async def _save(self, write: _Write, embedded: dict[str, EmbeddedText]) -> WriteOutcome | MemlaneError:
        draft = write.draft
        given = min(self.patience.seconds, self.limit.left() - WRITE_SECONDS)
        patience = Patience(given)
        try:
            outcome: WriteOutcome | MemlaneError = await self.limit.run(
                partial(
                    save_embedded,
                    self.services,
                    self.caller,
                    draft,
                    embedded[draft.content],
                    write.idempotency,
                    patience=patience,
                )
            )
        except Unavailable as fault:
            self._note(fault, draft.scope)
            return fault
        except MemlaneError as fault:
            outcome = fault
        self.patience.seconds -= given - patience.seconds
        self.limit.moved()
        return outcome

    def _note(self, fault: Unavailable, *scopes: Scope) -> None:
        self.limit.stop_moving()
        for scope in scopes:
            self.down.setdefault(scope, fault)
