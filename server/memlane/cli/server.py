"""Runs the ASGI application on uvicorn, with our logs and no query string in them."""

import asyncio
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import uvicorn
import uvloop
from prometheus_client import start_http_server
from starlette.types import ASGIApp

from memlane.domain.errors import Misconfigured
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.phoenix.frames import MAX_FRAME_BYTES
from memlane.realtime.wire import StreamSocketProtocol
from memlane.rest.http_protocol import HttpProtocol

GRACE_SECONDS = 10
"""Longest wait for requests under way when the process is told to stop."""

T = TypeVar("T")


class Server(uvicorn.Server):
    """uvicorn's server that tells when it is ready, and returns after a signal so that we can close in order."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], Awaitable[None]] | None = None,
        drain: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._drain = drain
        self._draining: asyncio.Timeout | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so. Where the start fails, newer versions of uvicorn would end the process: we return."""
        try:
            await super().startup(sockets=sockets)
        except SystemExit:
            self.should_exit = True
        # What start-up made stays for the process's life: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        if self.started and not self.should_exit and self._on_ready is not None:
            await self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while the listener is still open; uvicorn would cut every socket at once."""
        if self._drain is not None and not self.force_exit:
            await self._drain_unless_forced(self._drain)
        await super().shutdown(sockets=sockets)

    async def _drain_unless_forced(self, drain: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(None) as self._draining:
                await drain()
        except TimeoutError:
            log.warning("drain_cut_short")
        finally:
            self._draining = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a second signal of either kind ends the process at once. uvicorn takes only SIGINT so."""
        if self.should_exit:
            self.force_exit = True
            if self._draining is not None:
                self._draining.reschedule(0.0)
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM.

        uvicorn's own raises the signal again once it has stopped, which would cut off what we still have to close.
        The handlers stay until the process ends, for the same reason.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def run_loop(act: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command's coroutine on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(act())


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening address, taken before anything is started, so that a taken port is told at once.

    Raises:
        Misconfigured: The address is not free or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on: an answer would wait 40 ms for an acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(2048)
    except OSError as fault:
        bound.close()
        raise Misconfigured(
            f"port {port} on {host} cannot be used ({fault.strerror}): stop what holds it, or choose another --port"
        ) from fault
    return bound


async def serve(
    app: ASGIApp,
    bound: socket.socket,
    *,
    on_ready: Callable[[], Awaitable[None]] | None = None,
    drain: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Serve until a signal.

    Returns:
        Whether start-up succeeded.
    """
    server = server_of(app, on_ready, drain)
    await server.serve(sockets=[bound])
    return server.started


def server_of(
    app: ASGIApp,
    on_ready: Callable[[], Awaitable[None]] | None = None,
    drain: Callable[[], Awaitable[None]] | None = None,
) -> Server:
    """The server of an application, as every role runs it."""
    return Server(
        uvicorn.Config(
            app,
            http=HttpProtocol,
            proxy_headers=False,
            ws=StreamSocketProtocol,
            ws_max_size=MAX_FRAME_BYTES,
            ws_per_message_deflate=False,
            # The client's heartbeat is the protocol's own; a reader that has stalled is given time to come back.
            ws_ping_interval=None,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_SECONDS,
        ),
        on_ready,
        drain,
    )


def serve_metrics(port: int | None, host: str) -> None:
    """Prometheus text on a port of its own, when one is configured.

    Raises:
        Misconfigured: The port is not free or not ours.
    """
    if port is None:
        return
    try:
        start_http_server(port, addr=host, registry=metrics.REGISTRY)
    except OSError as fault:
        raise Misconfigured(
            f"port {port} on {host} cannot be used for metrics ({fault.strerror}): "
            "stop what holds it, or set another MEMLANE_METRICS_PORT"
        ) from fault
