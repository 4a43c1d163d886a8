"""The offline embedder: all-MiniLM-L6-v2 in this process, one run at a time, concurrent callers batched."""

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from memlane.domain.spaces import EmbeddingSpace
from memlane.embedding import minilm
from memlane.embedding.outcomes import EmbedFailed, OnCall, observed
from memlane.usecases.ports import Vector

# Measured on 110 labelled pairs of short statements (44 say the same twice, 66 differ in a negation, a
# number, a name or the like): from .75 on lie 95 % of the duplicates and 83 % of the near misses, which
# someone should see too, against 0.2 % of the 24,000 other pairs of those statements (.80: 89 %, 74 % and
# 0.1 %; .70: 95 %, 89 % and 0.2 %). It only decides what an answer mentions: no cosine can tell a duplicate
# from a near miss.
CLOSE_SIMILARITY = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    text: str
    future: asyncio.Future[Vector]
    loop: asyncio.AbstractEventLoop

    @property
    def cost(self) -> int:
        """About how many tokens: four characters each in ASCII text, one each in other scripts."""
        length = len(self.text)
        return min(minilm.MAX_TOKENS, 2 + (length // 4 if self.text.isascii() else length))

    def settle(self, outcome: Vector | EmbedFailed) -> None:
        """Hand the outcome to the waiting caller, from any thread; a caller that went away gets nothing."""
        try:
            self.loop.call_soon_threadsafe(self._settle, outcome)
        except RuntimeError:  # the caller's event loop was closed: nobody waits any more
            return

    def _settle(self, outcome: Vector | EmbedFailed) -> None:
        if self.future.done():
            return
        if isinstance(outcome, EmbedFailed):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class LocalEmbedder:
    """Embeds on this machine's processors; needs no network and downloads nothing.

    Constructing it loads and checks the model: about 0.3 s, blocking. One worker thread runs the model. An
    idle worker starts with what waits at once; while it runs, callers' texts gather, and the next run takes
    up to `minilm.MAX_BATCH` of them. A call of many texts has at most `minilm.MAX_BATCH` of them in
    the queue at a time, so that a long import does not push a query aside.

    Concurrency: every method may be called from any task of any event loop.

    Args:
        time_limit: Seconds that one call may take, waiting included; above 0.
        max_queue: Texts that may wait, of all callers together, 1 or more. At the bound a call fails with
            outcome ``busy``. 512 short texts take 1.4 s on two idle processors.
        threads: Threads inside one run; None for one or two, by the processors at hand.
        on_call: Told the outcome, seconds and number of texts of each call.
        model_path: Another place of the same model file.

    Raises:
        Misconfigured: The model or vocabulary file is missing or is not the pinned one.
    """

    def __init__(
        self,
        *,
        time_limit: float = 3.0,
        max_queue: int = 512,
        threads: int | None = None,
        on_call: OnCall | None = None,
        model_path: Path | None = None,
    ) -> None:
        self._model = minilm.MiniLM(model_path=model_path, threads=threads)
        self._time_limit = time_limit
        self._max_queue = max_queue
        self._on_call = on_call
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="memlane-embed")
        self._lock = threading.Lock()
        # The lock guards these three.
        self._waiting: deque[_Job] = deque()
        self._draining = False
        self._closed = False

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the pinned model file and the pipeline around it."""
        return EmbeddingSpace("local", minilm.MODEL_NAME, minilm.DIMENSIONS, minilm.fingerprint())

    @property
    def close_similarity(self) -> float:
        """The cosine from which two documents count as close."""
        return CLOSE_SIMILARITY

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts to be stored, in order.

        Args:
            texts: Any number; each is cut at 256 tokens. Within the time limit two busy processors do about
                500 short texts or 25 of full length; more wants a longer limit.

        Raises:
            EmbedderUnavailable: The queue is full, the time limit is over, the model failed, or it is closed.
        """
        if not texts:
            return []
        vectors: list[Vector] = []
        with observed(self._on_call, len(texts), self._time_limit):
            async with asyncio.timeout(self._time_limit):
                for start in range(0, len(texts), minilm.MAX_BATCH):
                    vectors += await self._embed(texts[start : start + minilm.MAX_BATCH])
        return vectors

    async def embed_query(self, text: str) -> Vector:
        """Embed a search query; this model takes it as it takes a document.

        Raises:
            EmbedderUnavailable: As for `embed_documents`.
        """
        return (await self.embed_documents([text]))[0]

    async def probe(self) -> None:
        """Embed one word. The dimension cannot be wrong: the model file is pinned.

        Raises:
            EmbedderUnavailable: As for `embed_documents`.
        """
        await self.embed_query("probe")

    async def aclose(self) -> None:
        """Fail what waits, let the present run end (at most about 0.5 s), and free the thread. Idempotent."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
        for job in waiting:
            job.settle(EmbedFailed("The embedder is closing; try again."))
        await asyncio.to_thread(self._executor.shutdown, wait=True)

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        loop = asyncio.get_running_loop()
        jobs = [_Job(text, loop.create_future(), loop) for text in texts]
        self._enqueue(jobs)
        try:
            return await asyncio.gather(*(job.future for job in jobs))
        finally:
            # After a failure or when the caller went away, the rest must not take places nor be computed.
            if not all(job.future.done() and not job.future.cancelled() for job in jobs):
                self._withdraw(jobs)

    def _enqueue(self, jobs: list[_Job]) -> None:
        with self._lock:
            if self._closed:
                raise EmbedFailed("The embedder is closed; try again.")
            if len(self._waiting) + len(jobs) > self._max_queue:
                message = f"The embedder's queue is full ({self._max_queue} texts); try again."
                raise EmbedFailed(message, outcome="busy")
            self._waiting.extend(jobs)
            if not self._draining:
                self._start_drain()

    def _start_drain(self) -> None:
        """Let the thread work off the queue; the lock is held."""
        self._draining = True
        self._executor.submit(self._drain).add_done_callback(self._drained)

    def _withdraw(self, jobs: list[_Job]) -> None:
        for job in jobs:
            job.future.cancel()
        with self._lock:
            self._waiting = deque(job for job in self._waiting if not job.future.cancelled())

    def _drain(self) -> None:
        """In the thread: run what waits, batch by batch, until nothing does."""
        while batch := self._take():
            try:
                for positions, vectors in self._model.encode([job.text for job in batch]):
                    for position, vector in zip(positions, vectors.tolist(), strict=True):
                        batch[position].settle(vector)
            except BaseException as error:
                # Whatever the runtime raises is this batch's outcome, and no other's.
                self._fail(batch, error)
                if not isinstance(error, Exception):
                    raise

    def _take(self) -> list[_Job]:
        """The next batch, oldest first: at most 32 texts of about 1,024 tokens; empty ends the drain."""
        batch: list[_Job] = []
        tokens = 0
        with self._lock:
            while self._waiting and len(batch) < minilm.MAX_BATCH:
                tokens += self._waiting[0].cost
                if batch and tokens > minilm.MAX_BATCH_TOKENS:
                    break
                batch.append(self._waiting.popleft())
            if not batch:
                self._draining = False
        return batch

    def _drained(self, drain: ThreadFuture[None]) -> None:
        """The thread's work ended. If it died instead, fail who waits, and be ready for the next call."""
        error = drain.exception() if not drain.cancelled() else None
        if error is None:
            return
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._draining = False
        self._fail(waiting, error)

    @staticmethod
    def _fail(jobs: list[_Job], error: BaseException) -> None:
        # The kind of the error only: its message could quote the input.
        message = f"The offline embedder failed ({type(error).__name__}); try again."
        for job in jobs:
            job.settle(EmbedFailed(message))
