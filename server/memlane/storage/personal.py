"""All that is kept about one user's memories, for that user."""

from typing import Any

from memlane.storage.pool import Pool
from memlane.storage.statements import statement


class PersonalData:
    """Reads only."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def count(self, project_id: str, user_id: str) -> int:
        """How many memories a user has, live and retired."""
        counted: int = await self._pool.read(
            lambda connection: connection.fetchval(statement("count_user_memories"), project_id, user_id)
        )
        return counted

    async def page(self, project_id: str, user_id: str, after: str | None, limit: int) -> list[dict[str, Any]]:
        """The next memories in order of id, each with its earlier wordings and its writes as JSON."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("export_user_page"), project_id, user_id, after, limit)
        )
        return [dict(row) for row in rows]
