"""The index over the vectors of one embedding space, for project channels that are too large to be read whole."""

import asyncpg

from memlane.domain.errors import Misconfigured
from memlane.storage.statements import statement, statement_for_space

OLDEST_PGVECTOR = (0, 8)
"""Iterative scans came with 0.8: before, a filter could starve a result."""


async def build_near_index(dsn: str, space_id: int, dimensions: int) -> None:
    """Build a space's index without holding up writes; one that a broken build left is built anew.

    Args:
        dsn: A direct connection, not through a transaction pooler.
        space_id: The space.
        dimensions: The length of its vectors.

    Raises:
        Misconfigured: pgvector is too old for it.
    """
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        state = await connection.fetchrow(statement("find_near_index"), f"memories_near_{space_id}")
        if state is None or tuple(int(part) for part in state["version"].split(".")[:2]) < OLDEST_PGVECTOR:
            raise Misconfigured("The index needs pgvector 0.8 or later; this database has an older one.")
        await connection.execute("set statement_timeout = 0")
        # A graph that does not fit is built many times slower.
        await connection.execute("set maintenance_work_mem = '512MB'")
        if state["valid"] is False:
            await connection.execute(statement_for_space("drop_near_index", space_id, dimensions))
        await connection.execute(statement_for_space("create_near_index", space_id, dimensions))
    finally:
        await connection.close()
