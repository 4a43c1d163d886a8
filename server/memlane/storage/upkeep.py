"""Work on rows in the background and by the operator: implements `usecases.ports.Upkeep`."""

from collections.abc import Sequence

from memlane.domain.spaces import EmbeddingSpace
from memlane.storage.pool import Connection, Pool
from memlane.storage.statements import statement
from memlane.usecases.ports import ForeignRow, SpaceStatus, StaleRow, Vector

INDEX_NAME = "memories_near_%"


class PostgresUpkeep:
    """Each call is one short transaction."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def stale_rows(self, canonical_version: int, terms_version: int, limit: int) -> list[StaleRow]:
        """See `Upkeep.stale_rows`."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_stale_rows"), canonical_version, terms_version, limit)
        )
        return [
            StaleRow(
                row["project_id"], row["id"], row["scope"], row["user_id"], row["content"], row["seq"], row["worded_at"]
            )
            for row in rows
        ]

    async def rekey(
        self, row: StaleRow, absorb_key: bytes | None, canonical_version: int, terms: Sequence[str], terms_version: int
    ) -> None:
        """See `Upkeep.rekey`. A live row that took the key meanwhile makes the statement run again, and find it."""
        await self._pool.write(
            lambda connection: connection.execute(
                statement("rekey_row"),
                *(row.project_id, row.id, row.seq, absorb_key, canonical_version, terms, terms_version),
            )
        )

    async def spaces(self) -> list[SpaceStatus]:
        """See `Upkeep.spaces`."""
        rows = await self._pool.read(lambda connection: connection.fetch(statement("list_spaces"), INDEX_NAME))
        return [
            SpaceStatus(
                row["id"],
                EmbeddingSpace(row["provider"], row["model"], row["dimensions"], row["fingerprint"]),
                row["rows"],
                row["activated_at"] is not None,
                row["indexed"],
            )
            for row in rows
        ]

    async def ensure_space(self, space: EmbeddingSpace) -> int:
        """See `Upkeep.ensure_space`."""
        names = (space.provider, space.model, space.dimensions, space.fingerprint)

        async def ensure(connection: Connection) -> int:
            await connection.execute(statement("ensure_space"), *names)
            found: int = await connection.fetchval(statement("find_space"), *names)
            return found

        return await self._pool.write(ensure)

    async def activate(self, space_id: int) -> None:
        """See `Upkeep.activate`."""
        await self._pool.write(lambda connection: connection.execute(statement("activate_space"), space_id))

    async def count_foreign(self, space_id: int) -> int:
        """See `Upkeep.count_foreign`."""
        counted: int = await self._pool.read(
            lambda connection: connection.fetchval(statement("count_foreign_rows"), space_id)
        )
        return counted

    async def count_project_rows(self, at_most: int) -> int:
        """How many rows of the project scope there are, counted no further than ``at_most``."""
        counted: int = await self._pool.read(
            lambda connection: connection.fetchval(statement("count_project_rows"), at_most)
        )
        return counted

    async def foreign_rows(self, space_id: int, limit: int) -> list[ForeignRow]:
        """See `Upkeep.foreign_rows`."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_foreign_rows"), space_id, limit)
        )
        return [ForeignRow(row["project_id"], row["id"], row["content"], row["seq"]) for row in rows]

    async def move(self, rows: Sequence[ForeignRow], space_id: int, embeddings: Sequence[Vector]) -> int:
        """See `Upkeep.move`."""
        done: str = await self._pool.write(
            lambda connection: connection.execute(
                statement("move_to_space"),
                [row.project_id for row in rows],
                [row.id for row in rows],
                [row.seq for row in rows],
                space_id,
                [str(list(embedding)) for embedding in embeddings],
            )
        )
        return int(done.rpartition(" ")[2])
