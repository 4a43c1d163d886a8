"""Proof by a judge, before the channel's lock: the lock is never held while a model thinks."""

import asyncio
from dataclasses import dataclass

from memlane.domain.judging import JUDGE_CANDIDATES, JUDGE_MARGIN, JUDGE_WORDINGS, may_be_judged
from memlane.domain.memory import Draft
from memlane.observability import metrics
from memlane.usecases.ports import Candidate, ChannelRef, ChannelWrite, Judge, Services, StoredMemory, Wording

JUDGE_SECONDS = 3.0
"""Longest time that one save waits for its judge."""
BEFORE_WRITE_SECONDS = 3.3
"""Longest time from a save's begin to its write: the write has 1.5 s within the 4.8 s of a request."""
BATCH_JUDGE_SECONDS = 4.0
"""Longest time that all saves of one batch wait together; after it the others are different."""


@dataclass(slots=True)
class Patience:
    """How long a request may still wait for judges, in seconds."""

    seconds: float = JUDGE_SECONDS


def patience_since(began: float) -> Patience:
    """How long a save may wait for its judge: less where its embedder was slow.

    Args:
        began: When the save began, by the event loop's clock.
    """
    spent = asyncio.get_running_loop().time() - began
    return Patience(max(0.0, min(JUDGE_SECONDS, BEFORE_WRITE_SECONDS - spent)))


@dataclass(frozen=True, slots=True)
class Proven:
    """A live memory that a judge found to say the same, as it was when it was judged."""

    memory_id: str
    seq: int


async def prove(
    services: Services,
    channel: ChannelRef,
    draft: Draft,
    wording: Wording,
    patience: Patience,
    *,
    but_not: str | None = None,
) -> Proven | None:
    """Find a close live memory whose present wording and every absorbed one say what the draft says.

    Without a judge, with one that is down or slow, and where the form proves it anyway, the answer is None. It is
    proven against every wording, so that a row cannot drift from meaning to meaning: A absorbs B, and C, which
    is like B and not like A, stays a memory of its own.

    Raises:
        StorageUnavailable: The candidates cannot be read.
    """
    judge = services.judge
    if judge is None or patience.seconds <= 0:
        return None
    candidates = await services.store.find_candidates(
        channel,
        draft.kind,
        space_id=wording.space_id,
        embedding=wording.embedding,
        at_least=services.embedder.close_similarity - JUDGE_MARGIN,
        but_not=but_not,
        limit=JUDGE_CANDIDATES,
    )
    if any(candidate.absorb_key == wording.absorb_key for candidate in candidates):
        return None
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(patience.seconds):
            return await _first_proven(judge, candidates, draft)
    except TimeoutError:
        metrics.JUDGED.labels("slow").inc()
        return None
    finally:
        patience.seconds -= asyncio.get_running_loop().time() - began


async def _first_proven(judge: Judge, candidates: list[Candidate], draft: Draft) -> Proven | None:
    for candidate in candidates:
        wordings = list(dict.fromkeys((candidate.content, *candidate.absorbed)))
        if len(wordings) > JUDGE_WORDINGS or not all(
            may_be_judged(draft.content, one, draft.scope) for one in wordings
        ):
            continue
        for one in wordings:
            same = await judge.says_the_same(one, draft.content)
            metrics.JUDGED.labels("same" if same else "different").inc()
            if not same:
                break
        else:
            return Proven(candidate.id, candidate.seq)
    return None


async def still_proven(write: ChannelWrite, proven: Proven | None) -> StoredMemory | None:
    """Under the lock: the proven memory, if nothing changed it since it was judged."""
    if proven is None:
        return None
    found = await write.find(proven.memory_id)
    return found if found is not None and found.memory.live and found.seq == proven.seq else None
