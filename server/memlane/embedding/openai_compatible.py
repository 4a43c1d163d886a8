"""The embedder over HTTP: text-embeddings-inference (TEI) and everything that speaks ``/v1/embeddings``."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal

import httpx

from memlane.domain.errors import Misconfigured
from memlane.domain.spaces import EmbeddingSpace
from memlane.embedding import wire
from memlane.embedding.breaker import CircuitBreaker
from memlane.embedding.http_transport import InputRefused, NotOffered, Transport, UnusableAnswer
from memlane.embedding.outcomes import OnCall, WrongModel, observed
from memlane.embedding.profiles import profile_for
from memlane.usecases.ports import Vector

Protocol = Literal["tei", "openai"]

MAX_BATCH = 32
"""Texts in one request: TEI's own default for ``max_client_batch_size``."""

MAX_CUTS = 4
"""How often a single refused text is cut in half: to a sixteenth, 512 of the longest memory's code points."""

_INFO_BYTES = 64 * 1024
_BAD_REQUEST = 400


class OpenAICompatibleEmbedder:
    """Embeds by a TEI or OpenAI-compatible service.

    Which of the two protocols is spoken is found out at the first call: a service whose ``/info`` looks like
    TEI's is asked by ``/embed``, every other by ``/v1/embeddings``. The choice is kept once an embedding
    by it succeeded. The space does not depend on it, so that it is known before the service answers.

    Concurrency: for the tasks of one event loop. A call of more than `max_batch` texts is split into
    requests that run side by side, at most `max_connections` at a time for all callers.

    Args:
        url: The service's base URL, with or without ``/v1``, ``/v1/embeddings`` or ``/embed`` at its end.
        model: The model's name as the service knows it; it also selects the profile.
        dimensions: Length of a vector, 1 to 4000. Sent to OpenAI-compatible services; TEI has one.
        api_key: A bearer token, if the service wants one.
        time_limit: Seconds that one call may take, retries and waiting included; above 0.
        max_batch: Texts in one request, 1 or more; TEI's ``/info`` may lower it.
        max_connections: Requests at a time, 1 or more.
        max_waiting: Requests waiting for their turn, 1 or more; at the bound a call fails (``busy``).
        on_call: Told the outcome, seconds and number of texts of each call.
        breaker: When to stop asking; None for five failures in a row and 2 s.
        transport: What carries the requests; None for the network.
        random_unit: Gives numbers from 0 to 1 for the jitter of retries.

    Raises:
        Misconfigured: The URL, the dimension or the key cannot be right.
    """

    def __init__(
        self,
        url: str,
        model: str,
        dimensions: int,
        *,
        api_key: str | None = None,
        time_limit: float = 3.0,
        max_batch: int = MAX_BATCH,
        max_connections: int = 8,
        max_waiting: int = 256,
        on_call: OnCall | None = None,
        breaker: CircuitBreaker | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        random_unit: Callable[[], float] = random.random,
    ) -> None:
        if not 1 <= dimensions <= wire.MAX_DIMENSIONS:
            message = f"The embedding's dimensions must be 1 to {wire.MAX_DIMENSIONS}."
            raise Misconfigured(message)
        self._routes = wire.Routes.of(url)
        self._model = model
        self._dimensions = dimensions
        self._profile = profile_for(model)
        self._time_limit = time_limit
        self._max_batch = max_batch
        self._on_call = on_call
        self._http = Transport(
            self._routes.openai,
            api_key=api_key,
            max_connections=max_connections,
            max_waiting=max_waiting,
            breaker=breaker,
            transport=transport,
            random_unit=random_unit,
        )
        self._protocol: Protocol | None = None
        self._protocol_lock = asyncio.Lock()
        self._send_dimensions = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._http.origin!r}, {self._model!r}, {self._dimensions})"

    @property
    def space(self) -> EmbeddingSpace:
        """The space: the model and its profile, the same by either protocol."""
        return EmbeddingSpace("openai", self._model, self._dimensions, self._profile.fingerprint)

    @property
    def close_similarity(self) -> float:
        """The cosine from which two documents count as close, by the model's profile."""
        return self._profile.close_similarity

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts to be stored, in order.

        Args:
            texts: Any number; what is over the model's window is cut, by the service or by us.

        Raises:
            EmbedderUnavailable: No usable answer within the time limit.
        """
        return await self._embed(texts, self._profile.document)

    async def embed_query(self, text: str) -> Vector:
        """Embed a search query.

        Raises:
            EmbedderUnavailable: No usable answer within the time limit.
        """
        return (await self._embed([text], self._profile.query))[0]

    async def probe(self) -> None:
        """Ask for one vector.

        Raises:
            EmbedderUnavailable: No usable answer yet.
            Misconfigured: The vector has another length than configured, or TEI serves another model.
        """
        # What answers there may have been exchanged since.
        self._protocol = None
        try:
            await self._embed(["probe"], self._profile.document)
        except WrongModel as error:
            raise Misconfigured(f"{error.message} Set the model and the dimensions that it serves.") from None

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()

    async def _embed(self, texts: Sequence[str], form: Callable[[str], str]) -> list[Vector]:
        if not texts:
            return []
        with observed(self._on_call, len(texts), self._time_limit):
            deadline = asyncio.get_running_loop().time() + self._time_limit
            async with asyncio.timeout_at(deadline):
                protocol = self._protocol or await self._find_protocol(deadline)
                ask = self._ask_tei if protocol == "tei" else self._ask_openai

                async def request(part: Sequence[str]) -> list[Vector]:
                    return await ask([form(_sendable(text)) for text in part], deadline)

                parts = [texts[at : at + self._max_batch] for at in range(0, len(texts), self._max_batch)]
                answers = await _side_by_side([_split(request, part) for part in parts])
                self._protocol = protocol
        return [vector for answer in answers for vector in answer]

    async def _find_protocol(self, deadline: float) -> Protocol:
        async with self._protocol_lock:
            if self._protocol is not None:
                return self._protocol
            try:
                info = await self._http.get(self._routes.info, deadline=deadline, max_bytes=_INFO_BYTES)
            except (InputRefused, NotOffered, UnusableAnswer):
                return "openai"
            tei = wire.read_tei_info(info)
            if tei is None:
                return "openai"
            if not tei.serves(self._model):
                message = (
                    f"The embedder at {self._http.origin} serves the model {tei.model_id[:200]!r}; "
                    f"{self._model!r} is configured."
                )
                raise WrongModel(message)
            self._max_batch = min(self._max_batch, tei.max_batch or self._max_batch)
            return "tei"

    async def _ask_tei(self, inputs: Sequence[str], deadline: float) -> list[Vector]:
        body = {"inputs": inputs, "truncate": True, "normalize": True}
        limit = wire.max_answer_bytes(len(inputs), self._dimensions)
        answer = await self._http.post(self._routes.tei, body, deadline=deadline, max_bytes=limit)
        return wire.read_vectors(answer, len(inputs), self._dimensions)

    async def _ask_openai(self, inputs: Sequence[str], deadline: float) -> list[Vector]:
        body: dict[str, object] = {"model": self._model, "input": inputs}
        if not self._send_dimensions:
            return await self._post_openai(body, len(inputs), deadline)
        try:
            return await self._post_openai(body | {"dimensions": self._dimensions}, len(inputs), deadline)
        except InputRefused as refusal:
            if refusal.status != _BAD_REQUEST:
                raise
        # Models of one fixed length refuse the parameter as such (vLLM, text-embedding-ada-002).
        vectors = await self._post_openai(body, len(inputs), deadline)
        self._send_dimensions = False
        return vectors

    async def _post_openai(self, body: object, texts: int, deadline: float) -> list[Vector]:
        limit = wire.max_answer_bytes(texts, self._dimensions)
        answer = await self._http.post(self._routes.openai, body, deadline=deadline, max_bytes=limit)
        return wire.read_vectors(wire.read_openai_data(answer), texts, self._dimensions)


def _sendable(text: str) -> str:
    """A text that JSON can carry and that no service refuses for being empty: a full stop stands for none."""
    return text.encode("utf-8", "replace").decode("utf-8") if text.strip() else "."


async def _split(
    request: Callable[[Sequence[str]], Awaitable[list[Vector]]], texts: Sequence[str], cuts: int = 0
) -> list[Vector]:
    """Send `texts`; what is refused is halved: a batch into two, a single text to its first half."""
    try:
        return await request(texts)
    except InputRefused:
        if len(texts) == 1 and (cuts == MAX_CUTS or len(texts[0]) <= 1):
            raise
    if len(texts) == 1:
        text = texts[0]
        return await _split(request, [text[: len(text) // 2]], cuts + 1)
    middle = len(texts) // 2
    return [*await _split(request, texts[:middle]), *await _split(request, texts[middle:])]


async def _side_by_side(requests: Sequence[Coroutine[Any, Any, list[Vector]]]) -> list[list[Vector]]:
    """Await all; when one fails, give up the others and raise its error."""
    if len(requests) == 1:
        return [await requests[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(request) for request in requests]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
