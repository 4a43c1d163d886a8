"""All that is derived from a text before its channel's lock is taken."""

from collections.abc import Sequence
from datetime import datetime

from memlane.domain.caller import Caller
from memlane.domain.canonical import CANONICAL_VERSION, absorb_key
from memlane.domain.memory import Draft
from memlane.domain.terms import TERMS_VERSION, index_terms
from memlane.usecases.ports import EmbeddedText, Services, Wording
from memlane.usecases.screening import refuse_secrets

EMBED_MAX = 16
"""Most texts that a batch or an import embeds in one call, as each call has the embedder's 3 s: of 8,192 characters the
offline embedder does 16 in 1.2 s on two processors, and 32 in 2.3 s, or in over 3 s while the machine is busy."""


async def embed_drafts(
    services: Services, caller: Caller, drafts: Sequence[Draft], *, screened: bool = False
) -> list[EmbeddedText]:
    """Screen drafts for secrets and embed them in one call.

    Args:
        services: What to work with.
        caller: Whose they are.
        drafts: The texts, at most `EMBED_MAX`.
        screened: They were screened already.

    Raises:
        SecretDetected: One of them holds a credential; none has left this process.
        EmbedderUnavailable: Nothing was written.
        StorageUnavailable: The embedding space cannot be looked up.
    """
    if not screened:
        refuse_secrets(services, caller, drafts)
    space_id = await services.store.space_id(services.embedder.space)
    embeddings = await services.embedder.embed_documents([draft.content for draft in drafts])
    return [
        EmbeddedText(draft.content, space_id, embedding) for draft, embedding in zip(drafts, embeddings, strict=True)
    ]


def word(caller: Caller, draft: Draft, embedded: EmbeddedText, now: datetime) -> Wording:
    """The absorb key and the search terms of a draft, beside its vector."""
    return Wording(
        content=draft.content,
        absorb_key=absorb_key(draft.content, scope=draft.scope, user_id=caller.user_id, now=now),
        canonical_version=CANONICAL_VERSION,
        terms=index_terms(draft.content),
        terms_version=TERMS_VERSION,
        space_id=embedded.space_id,
        embedding=embedded.embedding,
    )
