"""No credential is stored or sent to an embedder: texts are screened first, in every door."""

from collections.abc import Iterable, Mapping
from typing import Any

from memlane.domain.caller import Caller
from memlane.domain.errors import SecretDetected
from memlane.observability import metrics
from memlane.usecases.ports import Services


def refuse_secrets(services: Services, caller: Caller, texts: Iterable[tuple[str, str]]) -> None:
    """Look through texts, each with the path that a fault names.

    Raises:
        SecretDetected: The first that holds a credential; names its kind, never the text. Not in a project whose
            operator switched the screening off.
    """
    if not caller.key.screens_secrets:
        return
    for path, text in texts:
        kind = services.secrets.find(text)
        if kind is not None:
            metrics.SECRETS_REFUSED.labels(kind).inc()
            raise SecretDetected(kind, path)


def texts_of(body: Any) -> list[tuple[str, str]]:
    """The texts of a body that did not pass its model: a secret is told first, whatever else is wrong with it."""
    if not isinstance(body, Mapping):
        return []
    drafts = body.get("memories")
    found = [("content", body.get("content"))]
    if isinstance(drafts, list):
        found += [
            (f"memories.{place}.content", draft.get("content"))
            for place, draft in enumerate(drafts)
            if isinstance(draft, Mapping)
        ]
    return [(path, text) for path, text in found if isinstance(text, str)]
