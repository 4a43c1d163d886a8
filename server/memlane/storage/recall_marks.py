"""Marks memories as recalled in sorted batches, off the request path.

The queue is bounded: past ``QUEUE_MAX`` distinct memories a mark is dropped and counted, since a mark is a
hint of use and never worth a caller's wait. Sorted batches keep two processes from waiting for each other in a
circle, and the marks live in a table of their own, so no channel's lock is ever taken.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from memlane.domain.errors import StorageUnavailable
from memlane.observability import metrics
from memlane.storage.pool import Pool
from memlane.storage.statements import statement

QUEUE_MAX = 20_000
BATCH_MAX = 500
FLUSH_SECONDS = 0.5


class BatchedRecallMarks:
    """Implements `usecases.ports.RecallMarks`; `run` is a supervised background task."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._marks: dict[tuple[str, str], tuple[datetime, int]] = {}
        self._some = asyncio.Event()

    def mark(self, project_id: str, memory_ids: Sequence[str], at: datetime) -> None:
        """See `RecallMarks.mark`."""
        for memory_id in memory_ids:
            key = (project_id, memory_id)
            known = self._marks.get(key)
            if known is None and len(self._marks) >= QUEUE_MAX:
                metrics.RECALLS_DROPPED.inc()
                continue
            self._marks[key] = (max(at, known[0]), known[1] + 1) if known else (at, 1)
        self._some.set()

    async def run(self) -> None:
        """Write what is marked, about twice a second, for ever."""
        while True:
            await self._some.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write all that is marked now; while the database is down the marks stay queued."""
        while self._marks:
            batch = sorted(self._marks.items())[:BATCH_MAX]
            for key, _ in batch:
                del self._marks[key]
            try:
                await self._write(batch)
            except StorageUnavailable:
                for key, (at, count) in batch:
                    newer = self._marks.get(key)
                    self._marks[key] = (max(at, newer[0]), count + newer[1]) if newer else (at, count)
                return
        self._some.clear()

    async def _write(self, batch: list[tuple[tuple[str, str], tuple[datetime, int]]]) -> None:
        columns = (
            [key[0] for key, _ in batch],
            [key[1] for key, _ in batch],
            [mark[0] for _, mark in batch],
            [mark[1] for _, mark in batch],
        )
        await self._pool.write(lambda connection: connection.execute(statement("keep_recalls"), *columns))
