"""Keeps the statistics of large project channels, in the background and page by page: no write ever waits for it."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import numpy as np

from memlane.domain.errors import StorageUnavailable
from memlane.storage.pool import Pool
from memlane.storage.statements import statement

LARGE_MIN = 5_000
"""Live rows from which a project's channel is searched by its index. Up to there the exact search is as fast."""
FREQUENT_MIN = 500
"""A term of as many live rows is counted; the others are counted by each recall that has them."""
PAGE_ROWS = 2_000
SWEEP_SECONDS = 30.0
_CHANNELS_AT_A_TIME = 20


async def keep_statistics(pool: Pool) -> None:
    """Count the channels that changed by more than a tenth, for ever."""
    while True:
        # The next round finds the same channels due.
        with contextlib.suppress(StorageUnavailable):
            await count_due(pool)
        await asyncio.sleep(SWEEP_SECONDS)


async def count_due(pool: Pool) -> int:
    """Count the channels that are due now, and say how many were."""
    due = await pool.read(
        lambda connection: connection.fetch(statement("find_due_statistics"), LARGE_MIN, _CHANNELS_AT_A_TIME)
    )
    for row in due:
        await _count(pool, row["project_id"], row["channel_id"], row["seq"])
    return len(due)


async def _count(pool: Pool, project_id: str, channel_id: str, seq: int) -> None:
    rows: Counter[int] = Counter()
    totals: dict[int, np.ndarray] = {}
    terms: Counter[str] = Counter()
    after: str | None = None
    while True:
        values = (project_id, channel_id, after, PAGE_ROWS)
        sums = await _fetched(pool, "page_statistics", *values)
        if not sums:
            break
        words = await _fetched(pool, "page_terms", *values)
        for row in sums:
            total = np.array(row["total"], dtype=np.float64)
            totals[row["space_id"]] = totals.get(row["space_id"], 0.0) + total
            rows[row["space_id"]] += row["rows"]
        terms.update({row["term"]: row["rows"] for row in words})
        after = max(row["last"] for row in sums)
        await asyncio.sleep(0)
    live = rows.total()
    if not live:
        return
    (space_id, _), *_ = rows.most_common(1)
    centre = totals[space_id] / rows[space_id]
    frequent = {term: count for term, count in terms.items() if count >= FREQUENT_MIN}
    if live < LARGE_MIN:
        # Known not to be large: an empty list of counts would make every term look rare, but it is never asked.
        return
    await pool.write(
        lambda connection: connection.execute(
            statement("keep_statistics"),
            *(project_id, channel_id, space_id, live, centre.tolist()),
            *(list(frequent), list(frequent.values()), seq),
        )
    )


async def _fetched(pool: Pool, name: str, *values: object) -> list[Any]:
    return await pool.read(lambda connection: connection.fetch(statement(name), *values))
