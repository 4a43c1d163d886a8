"""A real embedding service on a loopback port: TEI's and OpenAI's routes over the offline model, with faults.

    async with EmbeddingServer("tei") as server:
        embedder = OpenAICompatibleEmbedder(server.url, server.model, server.dimensions)
        server.fault = Fault.SLOW

It runs in a thread of its own, so that it also answers a test that blocks its event loop, and serves any
number of event loops and processes. ``python -m support.embedding_server tei`` runs it by itself.
"""

import asyncio
import contextlib
import enum
import functools
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from memlane.embedding import minilm
from memlane.embedding.local import LocalEmbedder

Kind = Literal["tei", "openai"]
TEI_MAX_BATCH = 32


class Fault(enum.Enum):
    """What goes wrong with every embedding request (and with ``/info``, where it says so)."""

    NONE = "none"
    SLOW = "slow"  # answers after `slow_seconds`; /info too
    DOWN = "down"  # refuses connections
    STATUS_429 = "429"  # with `retry_after`, if set; /info too
    STATUS_500 = "500"  # /info too
    STATUS_401 = "401"
    WRONG_DIMENSION = "wrong dimension"
    WRONG_COUNT = "wrong count"
    NAN = "NaN"
    INFINITE = "infinite"
    ZERO = "zero vector"
    TEXT = "numbers as text"
    RUBBISH = "rubbish"  # 200, and no JSON; /info too
    REDIRECT = "redirect"  # to a route that would answer; /info too
    HUGE = "huge answer"  # without an end
    COMPRESSED = "compressed"
    REFUSE_400 = "400"  # what is over `refuse_texts` texts or `refuse_characters` characters
    REFUSE_413 = "413"
    REFUSE_422 = "422"


@functools.cache
def shared_local_embedder() -> LocalEmbedder:
    """The offline model, loaded once for a test process; without the limits that a test wants to see."""
    return LocalEmbedder(time_limit=60.0, max_queue=100_000)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float

    @property
    def texts(self) -> list[str]:
        """Its inputs; none for ``/info``."""
        found = self.body.get("inputs", self.body.get("input", []))
        return [found] if isinstance(found, str) else list(found)


@dataclass
class EmbeddingServer:
    """The service. Enter it with ``async with`` or ``with``; it starts and stops its thread.

    Attributes:
        kind: ``tei`` has ``/info``, ``/embed`` and ``/v1/embeddings``; ``openai`` has the last one only.
        model: The model's name in answers.
        takes_dimensions: False makes OpenAI's route refuse the parameter ``dimensions`` with 400.
        slow_seconds: How long `Fault.SLOW` takes.
        retry_after: The header of `Fault.STATUS_429` and `Fault.STATUS_500`.
        refuse_texts: The most texts that the refusing faults let through.
        refuse_characters: The longest text that they let through.
        calls: What arrived, oldest first.
    """

    kind: Kind = "tei"
    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    takes_dimensions: bool = True
    slow_seconds: float = 30.0
    retry_after: str | None = None
    refuse_texts: int = 2
    refuse_characters: int = 1_000
    calls: list[Call] = field(default_factory=list)
    dimensions: int = minilm.DIMENSIONS

    def __post_init__(self) -> None:
        self._fault = Fault.NONE
        self._fault_times: int | None = None
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._placeholder: socket.socket | None = None

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def fault(self) -> Fault:
        """What goes wrong; set it at any time. `Fault.DOWN` takes effect before the assignment returns."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self.inject(fault)

    def inject(self, fault: Fault, *, times: int | None = None) -> None:
        """Let `fault` happen for the next `times` requests; None for all."""
        was_down, self._fault, self._fault_times = self._fault is Fault.DOWN, fault, times
        if fault is Fault.DOWN and not was_down:
            self._stop()
            # Bound but not listening: connections are refused, and nobody else gets the port.
            self._placeholder = _bind(self._port)
        elif was_down and fault is not Fault.DOWN:
            self._close_placeholder()
            self._start()

    def _start(self) -> None:
        listener = _bind(self._port)
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="embedding-server", daemon=True
        )
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                message = "the embedding server did not start"
                raise RuntimeError(message)
            time.sleep(0.005)

    def _stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._server = self._thread = None

    def _close_placeholder(self) -> None:
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        self._close_placeholder()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._stop)
        self._close_placeholder()

    def _app(self) -> Starlette:
        routes = [Route("/v1/embeddings", self._openai, methods=["POST"])]
        if self.kind == "tei":
            routes += [Route("/info", self._info), Route("/embed", self._tei, methods=["POST"])]
        return Starlette(routes=routes)

    async def _info(self, request: Request) -> Response:
        self._note(request, {})
        if faulty := await self._plain_fault():
            return faulty
        return _json({"model_id": self.model, "max_client_batch_size": TEI_MAX_BATCH, "max_batch_tokens": 16_384})

    async def _tei(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        texts = self._note(request, body).texts
        if faulty := await self._plain_fault() or self._embed_fault(texts):
            return faulty
        if len(texts) > TEI_MAX_BATCH or not all(texts):
            return _json({"error": "batch size", "error_type": "Validation"}, 422)
        return _json(self._spoil(await shared_local_embedder().embed_documents(texts)))

    async def _openai(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        texts = self._note(request, body).texts
        if faulty := await self._plain_fault() or self._embed_fault(texts):
            return faulty
        if "dimensions" in body and not self.takes_dimensions:
            return _json({"error": {"message": "dimensions is not supported"}}, 400)
        rows = self._spoil(await shared_local_embedder().embed_documents(texts))
        data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
        # The order is not promised; the index is.
        return _json({"object": "list", "model": self.model, "data": data[::-1]})

    def _note(self, request: Request, body: dict[str, Any]) -> Call:
        call = Call(request.url.path, dict(request.headers), body, time.monotonic())
        self.calls.append(call)
        return call

    def _current(self) -> Fault:
        return Fault.NONE if self._fault_times == 0 else self._fault

    def _used(self) -> None:
        if self._fault_times:
            self._fault_times -= 1

    async def _plain_fault(self) -> Response | None:
        """The faults that have nothing to do with the request."""
        headers = {"retry-after": self.retry_after} if self.retry_after else None
        response: Response | None = None
        match self._current():
            case Fault.SLOW:
                await asyncio.sleep(self.slow_seconds)
            case Fault.STATUS_429:
                response = _json({"error": "overloaded"}, 429, headers)
            case Fault.STATUS_500:
                response = _json({"error": "inference failed"}, 500, headers)
            case Fault.RUBBISH:
                response = Response(b"<html>\xff\x00", media_type="text/html")
            case Fault.REDIRECT:
                response = Response(status_code=307, headers={"location": f"{self.url}/v1/embeddings"})
        if response is not None:
            self._used()
        return response

    def _embed_fault(self, texts: Sequence[str]) -> Response | None:
        fault = self._current()
        match fault:
            case Fault.STATUS_401:
                return _json({"error": "unauthorized"}, 401)
            case Fault.HUGE:
                return StreamingResponse(_endless(), media_type="application/json")
            case Fault.COMPRESSED:
                return Response(b"\x1f\x8b", headers={"content-encoding": "gzip"})
            case Fault.REFUSE_400 | Fault.REFUSE_413 | Fault.REFUSE_422:
                too_long = any(len(text) > self.refuse_characters for text in texts)
                if too_long or len(texts) > self.refuse_texts:
                    return _json({"error": "too large"}, int(fault.value))
        return None

    def _spoil(self, rows: list[list[float]]) -> list[Any]:
        spoilt: dict[Fault, list[Any]] = {
            Fault.WRONG_DIMENSION: [row[:-1] for row in rows],
            Fault.WRONG_COUNT: rows[:-1],
            Fault.NAN: [[None, *row[1:]] for row in rows],  # as most JSON writers put a NaN
            Fault.INFINITE: [[1e308] * len(row) for row in rows],
            Fault.ZERO: [[0.0] * len(row) for row in rows],
            Fault.TEXT: [[str(value) for value in row] for row in rows],
        }
        return spoilt.get(self._current(), rows)


def _bind(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


def _json(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, "application/json")


async def _endless() -> AsyncIterator[bytes]:
    yield b"[["
    while True:
        yield b"0.125," * 10_000
        await asyncio.sleep(0)


def main() -> None:
    """Serve until interrupted; the first line on stdout is the URL."""
    kind: Kind = "openai" if "openai" in sys.argv[1:] else "tei"
    with EmbeddingServer(kind) as server, contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
