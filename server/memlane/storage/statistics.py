"""Keeps the statistics of large project channels, in the background and page by page: no write ever waits for it."""

import asyncio
import contextlib
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from memlane.domain.errors import StorageUnavailable
from memlane.storage.pool import Connection, Pool
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


async def recount(pool: Pool) -> None:
    """Count every channel that has statistics again: its rows moved between spaces, which no seq tells."""
    for row in await _fetched(pool, "find_counted_channels"):
        await _count(pool, row["project_id"], row["channel_id"], row["seq"])


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
    await pool.write(
        lambda connection: connection.execute(statement("drop_statistics"), project_id, channel_id, list(rows))
    )
    frequent = {term: count for term, count in terms.items() if count >= FREQUENT_MIN}
    for space_id, total in totals.items():
        kept = (
            *(project_id, channel_id, space_id, live, (total / rows[space_id]).tolist()),
            *(list(frequent), list(frequent.values()), seq, rows[space_id]),
        )
        await pool.write(partial(_keep, kept))


async def _keep(values: tuple[object, ...], connection: Connection) -> None:
    await connection.execute(statement("keep_statistics"), *values)


async def _fetched(pool: Pool, name: str, *values: object) -> list[Any]:
    return await pool.read(lambda connection: connection.fetch(statement(name), *values))
