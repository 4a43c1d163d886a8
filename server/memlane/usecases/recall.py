"""Recall by meaning and by words, fused into one score."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memlane.domain.caller import Caller
from memlane.domain.errors import EmbedderUnavailable
from memlane.domain.memory import Kind, Scope
from memlane.domain.queries import mean_vector, near_spellings, respelled, without_names
from memlane.domain.scoring import fusion_weights
from memlane.domain.terms import query_terms
from memlane.usecases.access import require_scope, require_some
from memlane.usecases.ports import RecallPage, Reranker, ScoredMemory, Services, SpaceVector

RECALL_DEFAULT = 5
"""Results when the caller names no limit (rest.md)."""
RECALL_MAX = 20
"""Most results (rest.md)."""
MIN_SCORE_DEFAULT = 0.15
"""The least score for an agent that names none: on the labelled set it silences more than half of the questions that
nothing answers, and keeps most of what is found (docs/recall.md). REST cuts nothing by default."""


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What to look for. ``min_score`` 0 to 1 cuts weak results; ``strict`` refuses a degraded answer."""

    text: str
    limit: int = RECALL_DEFAULT
    scope: Scope | None = None
    kind: Kind | None = None
    min_score: float = 0.0
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """The best live memories, highest score first; ``degraded`` names what did not answer."""

    memories: list[ScoredMemory]
    degraded: tuple[str, ...] = ()


async def recall(services: Services, caller: Caller, query: RecallQuery) -> Recalled:
    """Find the live memories that answer a query.

    Without an embedder the answer is by words alone, and says so.

    Raises:
        Denied: The lane is off, or the grant does not read the scope.
        EmbedderUnavailable: The embedder does not answer and the caller asked for ``strict``.
        StorageUnavailable: The database does not answer.
    """
    if query.scope is None:
        scopes = require_some(caller, needs_write=False)
    else:
        require_scope(caller, query.scope, needs_write=False)
        scopes = (query.scope,)
    vectors, degraded = await _embed(services, query)
    terms = query_terms(query.text)

    async def find(terms: Sequence[str]) -> RecallPage:
        return await services.store.recall(
            caller.project_id,
            caller.user_id,
            scopes,
            vectors=vectors,
            terms=terms,
            weights=fusion_weights(has_vector=bool(vectors), has_terms=bool(terms)),
            kind=query.kind,
            min_score=0.0 if services.reranker else query.min_score,
            limit=RECALL_MAX if services.reranker else query.limit,
        )

    page = await find(terms)
    spellings = near_spellings(page.unseen)
    if spellings:
        every = sorted({spelling for some in spellings.values() for spelling in some})
        known = await services.store.known_terms(caller.project_id, caller.user_id, scopes, every)
        if known:
            page = await find(respelled(terms, spellings, known))
    found = page.found if services.reranker is None else await _rerank(services.reranker, query, page.found)
    services.recalls.mark(caller.project_id, [one.memory.id for one in found], services.clock.now())
    return Recalled(found, degraded)


async def _rerank(reranker: Reranker, query: RecallQuery, found: list[ScoredMemory]) -> list[ScoredMemory]:
    """Let a second model read the first 20; the score is then the mean of both. Without its answer the first stands."""
    relevance = await reranker.relevance(query.text, [one.memory.content for one in found]) if found else None
    if relevance is not None:
        both = [replace(one, score=(one.score + also) / 2) for one, also in zip(found, relevance, strict=True)]
        found = sorted(both, key=lambda one: (-one.score, one.memory.id))
    return [one for one in found if one.score >= query.min_score][: query.limit]


async def _embed(services: Services, query: RecallQuery) -> tuple[list[SpaceVector], tuple[str, ...]]:
    """The query's vector in the present space, then in the one before a change of models."""
    nameless = without_names(query.text)
    asked = [query.text] if nameless is None else [query.text, nameless]
    vectors: list[SpaceVector] = []
    for embedder in filter(None, (services.embedder, services.earlier_embedder)):
        try:
            views = await asyncio.gather(*(embedder.embed_query(text) for text in asked))
        except EmbedderUnavailable:
            if query.strict:
                raise
            return vectors, ("embedder",)
        vectors.append(SpaceVector(await services.store.space_id(embedder.space), mean_vector(views)))
    return vectors, ()
