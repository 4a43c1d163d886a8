"""Rows that are past their time, dropped in the background in small batches."""

import asyncio

from memlane.domain.errors import StorageUnavailable
from memlane.storage.pool import Pool
from memlane.storage.statements import statement

SWEEP_SECONDS = 60.0


async def drop_old_answers(pool: Pool) -> None:
    """Drop idempotency keys older than 25 h, for ever."""
    await _drop(pool, "drop_old_answers")


async def drop_old_sessions(pool: Pool, session_hours: int) -> None:
    """Drop stream sessions that have ended, for ever. A day is left, so that no ended one looks like a new one."""
    await _drop(pool, "drop_old_sessions", session_hours + 24)


async def _drop(pool: Pool, name: str, *values: object) -> None:
    while True:
        dropped = "DELETE 1"
        while dropped != "DELETE 0":
            try:
                dropped = await pool.write(lambda connection: connection.execute(statement(name), *values))
            except StorageUnavailable:
                break
        await asyncio.sleep(SWEEP_SECONDS)
