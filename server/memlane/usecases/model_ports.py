"""The models that the use cases ask: embedder, judge and reranker. `ports` hands them on."""

from collections.abc import Sequence
from typing import Protocol

from memlane.domain.spaces import EmbeddingSpace
from memlane.usecases.rows import Vector


class Embedder(Protocol):
    """Turns texts into unit vectors of one space.

    Concurrency: every method may be called from many tasks of one event loop. Every call ends within its
    time limit (3 s in all by default, retries included), and every queue inside is bounded.

    Raises (from each embed call):
        EmbedderUnavailable: The provider is down, slow, answers rubbish, or its queue is full.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space of every vector that this embedder returns."""
        ...

    @property
    def close_similarity(self) -> float:
        """The cosine from which two documents of this model count as close (for `similar` in answers)."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts to be stored, in order. Texts over the model's window are cut, never refused."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """Embed a search query; some models want another input for it than for a document."""
        ...

    async def probe(self) -> None:
        """Ask for one vector.

        Raises:
            EmbedderUnavailable: No answer yet; the caller may go on and try later.
            Misconfigured: It answers, with another dimension or model than configured.
        """
        ...

    async def aclose(self) -> None:
        """Free connections and threads."""
        ...


class Judge(Protocol):
    """A model that says whether two statements are one. It is asked only where the form cannot tell."""

    async def says_the_same(self, one: str, other: str) -> bool:
        """True only for a clear yes within its time limit; never raises."""
        ...

    async def aclose(self) -> None:
        """Free connections."""
        ...


class Reranker(Protocol):
    """A model that reads a query and a memory together."""

    async def relevance(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """How well each text answers, 0 to 1, in order; None without an answer within its time limit. Never raises."""
        ...

    async def aclose(self) -> None:
        """Free connections."""
        ...
