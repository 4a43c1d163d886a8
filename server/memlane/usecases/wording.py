"""All that is derived from a text before its channel's lock is taken."""

import asyncio
from collections.abc import Sequence

from memlane.domain.caller import Caller
from memlane.domain.canonical import CANONICAL_VERSION, absorb_key
from memlane.domain.memory import Draft
from memlane.domain.terms import TERMS_VERSION, index_terms
from memlane.usecases.ports import Services, Wording
from memlane.usecases.screening import refuse_secrets


async def derive_wordings(
    services: Services, caller: Caller, drafts: Sequence[Draft], *, screened: bool = False
) -> list[Wording]:
    """Screen drafts for secrets, embed them in one call, and make their absorb keys and terms meanwhile.

    Args:
        services: What to work with.
        caller: Whose they are.
        drafts: The texts.
        screened: They were screened already.

    Raises:
        SecretDetected: One of them holds a credential; none has left this process.
        EmbedderUnavailable: Nothing was written.
        StorageUnavailable: The embedding space cannot be looked up.
    """
    if not screened:
        refuse_secrets(services, caller, [("content", draft.content) for draft in drafts])
    now = services.clock.now()

    async def derive_keys() -> list[tuple[bytes | None, list[str]]]:
        # Runs while the embedder's thread or server is at work.
        return [
            (
                absorb_key(draft.content, scope=draft.scope, user_id=caller.user_id, now=now),
                index_terms(draft.content),
            )
            for draft in drafts
        ]

    embeddings, space_id, derived = await asyncio.gather(
        services.embedder.embed_documents([draft.content for draft in drafts]),
        services.store.space_id(services.embedder.space),
        derive_keys(),
    )
    return [
        Wording(
            content=draft.content,
            absorb_key=key,
            canonical_version=CANONICAL_VERSION,
            terms=terms,
            terms_version=TERMS_VERSION,
            space_id=space_id,
            embedding=embedding,
        )
        for draft, embedding, (key, terms) in zip(drafts, embeddings, derived, strict=True)
    ]
