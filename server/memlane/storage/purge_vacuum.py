"""After a purge: what Postgres keeps of erased texts beside the rows themselves.

Old row versions stay until a VACUUM frees them, which it cannot while an older snapshot may still read them. The
planner's statistics hold samples of texts until an ANALYZE takes new ones, which it does not of a table without rows.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import asyncpg

from memlane.storage.statements import statement

TABLES = (
    "memories",
    "memory_revisions",
    "memory_recalls",
    "idempotency_keys",
    "channels",
    "channel_statistics",
    "write_ledger",
)
"""What a purge writes to. `write_ledger` only grows: it is in here for its visibility map alone."""
SAMPLED = (
    ("memory_revisions", "has_memory_revisions", "put_sample_memory_revisions", "drop_sample_memory_revisions"),
    ("idempotency_keys", "has_idempotency_keys", "put_sample_idempotency_keys", "drop_sample_idempotency_keys"),
    ("channel_statistics", "has_channel_statistics", "put_sample_channel_statistics", "drop_sample_channel_statistics"),
)
"""Those with texts that can be without any row (of `memories` the tombstones stay), each with its statements."""
SNAPSHOT_SECONDS = 10.0
"""Longest wait for snapshots that are older than the purge; requests hold theirs for milliseconds."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What came of it.

    Attributes:
        refused: The tables that this role may not vacuum.
        held_back: How many transactions and replication slots may still read what was erased.
    """

    refused: tuple[str, ...]
    held_back: int


async def vacuum(connection: "asyncpg.Connection[asyncpg.Record]", seconds: float = SNAPSHOT_SECONDS) -> Vacuumed:
    """Free the space of the old row versions, and renew the statistics.

    Args:
        connection: In no transaction; of the tables' owner.
        seconds: Longest wait for older snapshots.
    """
    refused: list[str] = []

    def listen(_connection: object, message: Any) -> None:
        if "permission denied" in str(message):
            refused.append(str(message).partition('"')[2].partition('"')[0] or "a table")

    held_back = await _older_snapshots(connection, seconds)
    connection.add_log_listener(listen)
    # Not truncating: that would lock each table against everybody at the end.
    await connection.execute(f"vacuum (analyze, truncate false) {', '.join(TABLES)}", timeout=None)
    connection.remove_log_listener(listen)
    for table, has_rows, put, drop in SAMPLED:
        # A row that no other transaction ever sees: of no rows, no samples are taken and the old ones stay.
        if not await connection.fetchval(statement(has_rows)):
            async with connection.transaction():
                await connection.execute(statement(put))
                await connection.execute(f"analyze {table}")
                await connection.execute(statement(drop))
    return Vacuumed(tuple(dict.fromkeys(refused)), held_back)


async def _older_snapshots(connection: "asyncpg.Connection[asyncpg.Record]", seconds: float) -> int:
    # A transaction of its own, later than each of the purge.
    newest: str = await connection.fetchval(statement("next_transaction"))
    end = time.monotonic() + seconds
    while True:
        held_back: int = await connection.fetchval(statement("count_older_snapshots"), newest)
        if not held_back or time.monotonic() >= end:
            return held_back
        await asyncio.sleep(_LOOK_SECONDS)
