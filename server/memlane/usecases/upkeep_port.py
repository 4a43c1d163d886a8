"""Work on rows that no reader sees: re-keying, and a change of models. `ports` hands it on."""

from collections.abc import Sequence
from typing import Protocol

from memlane.domain.spaces import EmbeddingSpace
from memlane.usecases.rows import ForeignRow, SpaceStatus, StaleRow, Vector


class Upkeep(Protocol):
    """Work on rows that no reader sees. Every call ends within the store's time limits.

    Raises (from each call):
        StorageUnavailable: The database does not answer.
    """

    async def stale_rows(self, canonical_version: int, terms_version: int, limit: int) -> list[StaleRow]:
        """Rows whose key or terms are older than these versions."""
        ...

    async def rekey(
        self, row: StaleRow, absorb_key: bytes | None, canonical_version: int, terms: Sequence[str], terms_version: int
    ) -> None:
        """Give a row its new key and terms, unless it was written meanwhile or a live row has that key."""
        ...

    async def spaces(self) -> list[SpaceStatus]:
        """Every embedding space."""
        ...

    async def ensure_space(self, space: EmbeddingSpace) -> int:
        """The number of a space, made on first sight."""
        ...

    async def activate(self, space_id: int) -> None:
        """Make a space the one that rows are moved to."""
        ...

    async def count_foreign(self, space_id: int) -> int:
        """How many rows are not of this space."""
        ...

    async def foreign_rows(self, space_id: int, limit: int) -> list[ForeignRow]:
        """Rows that are not of this space."""
        ...

    async def move(self, rows: Sequence[ForeignRow], space_id: int, embeddings: Sequence[Vector]) -> int:
        """Give rows their vectors of this space; those that were written meanwhile are left. Says how many moved."""
        ...
