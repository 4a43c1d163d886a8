"""A second stage of recall: text-embeddings-inference's ``/rerank`` over the first results. Off unless configured."""

import asyncio
from collections.abc import Callable, Sequence

from memlane.embedding.endpoints import read_endpoint
from memlane.embedding.http_transport import Transport
from memlane.embedding.outcomes import EmbedFailed

_ANSWER_BYTES = 64 * 1024


class TeiReranker:
    """Implements `memlane.usecases.ports.Reranker`.

    Args:
        url: The service's base URL, with or without ``/rerank``.
        api_key: A bearer token, if the service wants one.
        time_limit: Seconds that one recall waits; after it the first stage's order stands.
        on_fault: Told when there was no usable answer.

    Raises:
        Misconfigured: The URL or the key cannot be right.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        time_limit: float = 1.5,
        on_fault: Callable[[], None] | None = None,
    ) -> None:
        base = read_endpoint(url)
        self._url = base.copy_with(path=base.path.rstrip("/").removesuffix("/rerank") + "/rerank", fragment=None)
        self._time_limit = time_limit
        self._on_fault = on_fault
        self._http = Transport(self._url, api_key=api_key, provider="reranker")

    async def relevance(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """See `Reranker.relevance`."""
        deadline = asyncio.get_running_loop().time() + self._time_limit
        body = {"query": query, "texts": list(texts), "truncate": True}
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._http.post(self._url, body, deadline=deadline, max_bytes=_ANSWER_BYTES)
            scores = {int(row["index"]): float(row["score"]) for row in answer}
            if set(scores) == set(range(len(texts))) and all(0 <= score <= 1 for score in scores.values()):
                return [scores[place] for place in range(len(texts))]
        except (EmbedFailed, TimeoutError, KeyError, TypeError, ValueError):
            pass
        if self._on_fault is not None:
            self._on_fault()
        return None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
