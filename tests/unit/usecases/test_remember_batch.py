import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memlane.domain.errors import StorageUnavailable
from memlane.domain.memory import Draft
from memlane.screening.secrets import DetectSecrets
from memlane.usecases import remember_batch as module
from memlane.usecases.ports import Services
from memlane.usecases.remember_batch import BATCH_SECONDS, CHUNK, remember_batch
from unit.usecases.test_access import Access, Grant, caller

DRAFTS = [Draft(f"Drawer {number} holds paper.", "topical") for number in range(CHUNK * 3)]
SERVICES = cast("Services", SimpleNamespace(secrets=DetectSecrets()))
FULL = caller(Grant(Access.READ_WRITE, Access.READ_WRITE))


def test_no_chunk_is_begun_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.0, BATCH_SECONDS, BATCH_SECONDS + 0.1])

    async def saved(_services: Any, _caller: Any, chunk: Any, _patience: Any) -> list[str]:
        return [draft.content for draft, _ in chunk]

    monkeypatch.setattr(module, "_remember_chunk", saved)
    outcomes = asyncio.run(remember_batch(SERVICES, FULL, DRAFTS, monotonic=lambda: next(times)))
    assert len(outcomes) == len(DRAFTS)
    assert outcomes[: CHUNK * 2] == [draft.content for draft in DRAFTS[: CHUNK * 2]]
    assert all(isinstance(outcome, StorageUnavailable) for outcome in outcomes[CHUNK * 2 :])


def test_when_nothing_could_be_written_the_whole_call_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(_services: Any, _caller: Any, chunk: Any, _patience: Any) -> list[StorageUnavailable]:
        return [StorageUnavailable()] * len(chunk)

    monkeypatch.setattr(module, "_remember_chunk", failed)
    with pytest.raises(StorageUnavailable):
        asyncio.run(remember_batch(SERVICES, FULL, DRAFTS))
