"""The floor of a fan-out: a bare `websockets` server that broadcasts, and nothing else."""

import time

from websockets.asyncio.server import Server, ServerConnection, broadcast, serve

from memlane.bench.deployment import HOST
from memlane.bench.stream_processes import Mark


class StreamFloor:
    """Served in a process of its own, on the same kind of loop as the service.

    Args:
        first_write: Where the moment before the first write is noted.
    """

    def __init__(self, first_write: Mark) -> None:
        self._first_write = first_write
        self._connections: set[ServerConnection] = set()
        self._server: Server | None = None

    async def listen(self) -> int:
        """Listen on a free port, and give it."""
        self._server = await serve(self._keep, HOST, 0, compression=None, ping_interval=None, backlog=2048)
        return int(next(iter(self._server.sockets)).getsockname()[1])

    async def send(self, text: str) -> None:
        """Broadcast a text to every socket."""
        self._first_write.set(time.monotonic())
        broadcast(self._connections, text)

    async def _keep(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        try:
            await connection.wait_closed()
        finally:
            self._connections.discard(connection)
