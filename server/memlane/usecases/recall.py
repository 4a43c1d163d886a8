"""Recall by meaning and by words, fused into one score."""

from dataclasses import dataclass

from memlane.domain.caller import Caller
from memlane.domain.errors import EmbedderUnavailable
from memlane.domain.memory import Kind, Scope
from memlane.domain.scoring import fusion_weights
from memlane.domain.terms import query_terms
from memlane.usecases.access import require_scope, require_some
from memlane.usecases.ports import ScoredMemory, Services, Vector

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
    embedding, degraded = await _embed(services, query)
    terms = query_terms(query.text)
    found = await services.store.recall(
        caller.project_id,
        caller.user_id,
        scopes,
        space_id=None if embedding is None else await services.store.space_id(services.embedder.space),
        embedding=embedding,
        terms=terms,
        weights=fusion_weights(has_vector=embedding is not None, has_terms=bool(terms)),
        kind=query.kind,
        min_score=query.min_score,
        limit=query.limit,
    )
    services.recalls.mark(caller.project_id, [one.memory.id for one in found], services.clock.now())
    return Recalled(found, degraded)


async def _embed(services: Services, query: RecallQuery) -> tuple[Vector | None, tuple[str, ...]]:
    try:
        return await services.embedder.embed_query(query.text), ()
    except EmbedderUnavailable:
        if query.strict:
            raise
        return None, ("embedder",)
