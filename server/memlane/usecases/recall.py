"""Recall by meaning and by words, fused into one score."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from memlane.domain.caller import Caller
from memlane.domain.errors import EmbedderUnavailable
from memlane.domain.memory import Kind, Scope
from memlane.domain.queries import mean_vector, near_spellings, respelled, without_names
from memlane.domain.scoring import fusion_weights
from memlane.domain.terms import query_terms
from memlane.usecases.access import require_scope, require_some
from memlane.usecases.ports import RecallPage, ScoredMemory, Services, SpaceVector

RECALL_DEFAULT = 5
"""Results when the caller names no limit (rest.md)."""
RECALL_MAX = 20
"""Most results (rest.md)."""


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
            min_score=query.min_score,
            limit=query.limit,
        )

    page = await find(terms)
    spellings = near_spellings(page.unseen)
    if spellings:
        every = sorted({spelling for some in spellings.values() for spelling in some})
        known = await services.store.known_terms(caller.project_id, caller.user_id, scopes, every)
        if known:
            page = await find(respelled(terms, spellings, known))
    services.recalls.mark(caller.project_id, [one.memory.id for one in page.found], services.clock.now())
    return Recalled(page.found, degraded)


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
