"""A new version of the canonical form or of the terms re-keys the rows, in the background."""

import asyncio

from memlane.domain.canonical import CANONICAL_VERSION, absorb_key
from memlane.domain.canonical.context import depends_on_speaker
from memlane.domain.canonical.text import fold
from memlane.domain.errors import StorageUnavailable
from memlane.domain.terms import TERMS_VERSION, index_terms
from memlane.observability import metrics
from memlane.usecases.ports import StaleRow, Upkeep

BATCH = 200
PAUSE_SECONDS = 0.05
SWEEP_SECONDS = 60.0


async def rekey_for_ever(upkeep: Upkeep) -> None:
    """Re-key stale rows in small batches; any number of processes may do so at once."""
    while True:
        try:
            done = await rekey_batch(upkeep)
        except StorageUnavailable:
            done = 0
        await asyncio.sleep(PAUSE_SECONDS if done else SWEEP_SECONDS)


async def rekey_batch(upkeep: Upkeep) -> int:
    """Re-key up to 200 rows, each by itself: a write of its channel never waits for more than one of them.

    Returns:
        How many were stale; 0 when every row is of the present version.

    Raises:
        StorageUnavailable: What was re-keyed stays.
    """
    rows = await upkeep.stale_rows(CANONICAL_VERSION, TERMS_VERSION, BATCH)
    for row in rows:
        await upkeep.rekey(row, _key_of(row), CANONICAL_VERSION, index_terms(row.content), TERMS_VERSION)
        metrics.REKEYED.inc()
    return len(rows)


def _key_of(row: StaleRow) -> bytes | None:
    """The row's key as of the day that its wording was written on.

    Whose text about its writer a shared one is, is not known any more: it gets no key, and matches nothing.
    """
    if row.scope == "project" and depends_on_speaker(fold(row.content)):
        return None
    return absorb_key(row.content, scope=row.scope, user_id=row.user_id, now=row.worded_at)
