"""All that is derived from a text before its channel's lock is taken."""

import asyncio
from collections.abc import Sequence

from memlane.domain.caller import Caller
from memlane.domain.canonical import CANONICAL_VERSION, absorb_key
from memlane.domain.memory import Draft
from memlane.domain.terms import TERMS_VERSION, index_terms
from memlane.usecases.ports import Services, Wording


async def derive_wordings(services: Services, caller: Caller, drafts: Sequence[Draft]) -> list[Wording]:
    """Embed drafts in one call, and make their absorb keys and terms.

    Raises:
        EmbedderUnavailable: Nothing was written.
        StorageUnavailable: The embedding space cannot be looked up.
    """
    embeddings, space_id = await asyncio.gather(
        services.embedder.embed_documents([draft.content for draft in drafts]),
        services.store.space_id(services.embedder.space),
    )
    now = services.clock.now()
    return [
        Wording(
            content=draft.content,
            absorb_key=absorb_key(draft.content, scope=draft.scope, user_id=caller.user_id, now=now),
            canonical_version=CANONICAL_VERSION,
            terms=index_terms(draft.content),
            terms_version=TERMS_VERSION,
            space_id=space_id,
            embedding=embedding,
        )
        for draft, embedding in zip(drafts, embeddings, strict=True)
    ]
