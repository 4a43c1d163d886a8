"""No credential is stored or sent to an embedder: what a caller sends is screened first, in every door."""

from collections.abc import Sequence
from typing import Any, NoReturn

from memlane.domain.caller import Caller
from memlane.domain.errors import SecretDetected
from memlane.domain.memory import CONTENT_MAX, THREAD_ID_MAX, Draft
from memlane.observability import metrics
from memlane.usecases.ports import SecretScanner, Services


def refuse_secrets(services: Services, caller: Caller, drafts: Sequence[Draft], *, batch: bool = False) -> None:
    """Look through the texts and source threads of drafts.

    Args:
        services: What to work with.
        caller: Whose they are.
        drafts: They.
        batch: They came as a list, so that a fault names the place of its draft too.

    Raises:
        SecretDetected: The first that holds a credential; names its kind and its path, never the text. Not in a
            project whose operator switched the screening off; that holds for each of these functions.
    """
    if not caller.key.screens_secrets:
        return
    for place, draft in enumerate(drafts):
        found = secret_of(services.secrets, draft.content, draft.source_thread_ids)
        if found is not None:
            path, kind = found
            _refuse(kind, f"memories.{place}.{path}" if batch else path)


def refuse_secret_provenance(services: Services, caller: Caller) -> None:
    """Look through what was sent of a write's origin: the ledger keeps it as it is, and no purge reaches it.

    Raises:
        SecretDetected: It holds a credential; the path is the header's or the `_meta` field's name.
    """
    sent = caller.provenance.sent
    if not sent or not caller.key.screens_secrets:
        return
    found = _secret_among(services.secrets, [text for _, text in sent])
    if found is not None:
        place, kind = found
        _refuse(kind, sent[place][0])


def refuse_secrets_of_body(services: Services, caller: Caller, body: Any) -> None:
    """Look through a write whose body did not pass its model: a secret is told first, whatever else is wrong with it.

    Raises:
        SecretDetected: As the others.
    """
    refuse_secret_provenance(services, caller)
    if not isinstance(body, dict) or not caller.key.screens_secrets:
        return
    drafts = body.get("memories")
    asked = [("", body)]
    if isinstance(drafts, list):
        asked += [(f"memories.{place}.", draft) for place, draft in enumerate(drafts) if isinstance(draft, dict)]
    for before, draft in asked:
        # Nothing checked how long these are, and nothing of what is too long will be stored.
        content, threads = _text(draft.get("content"), CONTENT_MAX), draft.get("sourceThreadIds")
        ids = [_text(one, THREAD_ID_MAX) for one in threads] if isinstance(threads, list) else []
        found = secret_of(services.secrets, content, ids)
        if found is not None:
            path, kind = found
            _refuse(kind, f"{before}{path}")


def secret_of(secrets: SecretScanner, content: str, thread_ids: Sequence[str]) -> tuple[str, str] | None:
    """The path and the kind of the first credential of a memory; None when there is none."""
    kind = secrets.find(content)
    if kind is not None:
        return "content", kind
    found = _secret_among(secrets, thread_ids)
    return found and (f"sourceThreadIds.{found[0]}", found[1])


def _secret_among(secrets: SecretScanner, ids: Sequence[str]) -> tuple[int, str] | None:
    # All at once first: a hundred ids one by one take as long as several texts.
    if not ids or secrets.find("\n".join(ids), is_id=True) is None:
        return None
    kinds = ((place, secrets.find(one, is_id=True)) for place, one in enumerate(ids))
    return next(((place, kind) for place, kind in kinds if kind is not None), None)


def _text(value: Any, longest: int) -> str:
    return value[:longest] if isinstance(value, str) else ""


def _refuse(kind: str, path: str) -> NoReturn:
    metrics.SECRETS_REFUSED.labels(kind).inc()
    raise SecretDetected(kind, path)
