"""A second embedding space that needs no second model."""

from collections.abc import Sequence

from memlane.domain.spaces import EmbeddingSpace
from memlane.usecases.ports import Embedder, Vector


class Turned:
    """The offline model with its numbers in reverse: a space of its own, in which a vector of the other is noise."""

    def __init__(self, owner: Embedder) -> None:
        self._owner = owner
        self.space = EmbeddingSpace("test", "turned", owner.space.dimensions)
        self.close_similarity = owner.close_similarity

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [vector[::-1] for vector in await self._owner.embed_documents(texts)]

    async def embed_query(self, text: str) -> Vector:
        return (await self._owner.embed_query(text))[::-1]

    async def probe(self) -> None:
        await self._owner.probe()

    async def aclose(self) -> None:
        """Leave the owner open."""
