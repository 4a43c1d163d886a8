"""Rows that are past their time, dropped in the background in small batches."""

import asyncio

from memlane.domain.errors import StorageUnavailable
from memlane.storage.pool import Pool
from memlane.storage.statements import statement

SWEEP_SECONDS = 60.0


async def drop_old_answers(pool: Pool) -> None:
    """Drop idempotency keys older than 25 h, for ever."""
    while True:
        dropped = "DELETE 1"
        while dropped != "DELETE 0":
            try:
                dropped = await pool.write(lambda connection: connection.execute(statement("drop_old_answers")))
            except StorageUnavailable:
                break
        await asyncio.sleep(SWEEP_SECONDS)
