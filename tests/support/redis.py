"""A redis-server of a test's own, on a free port and a folder of its own, which may be stopped, frozen and killed."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from support.service import free_port

START_SECONDS = 10.0
PROGRAM = os.environ.get("MEMLANE_TEST_REDIS", "redis-server")


class RedisServer:
    """One server; it keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start, and return when it answers."""
        if shutil.which(PROGRAM) is None:
            raise RuntimeError("redis-server is missing: sudo apt-get install redis-server")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        self._process = subprocess.Popen(
            [PROGRAM, *options, "--save", "", "--appendonly", "no", "--daemonize", "no"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        async with asyncio.timeout(START_SECONDS):
            while not await self.answers():
                if self._process.poll() is not None:
                    raise RuntimeError(f"redis-server ended with {self._process.returncode}")
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """SIGKILL: its clients see their connections end."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait, 10)
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: what was sent meanwhile is carried out now."""
        self._signal(signal.SIGCONT)

    async def kill_clients(self, kind: str) -> int:
        """Cut every connection of a type (``normal`` or ``pubsub``), and give their number."""
        client = Redis.from_url(self.url)
        try:
            killed: int = await client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        finally:
            await client.aclose()
        return killed

    async def answers(self) -> bool:
        """Whether it answers now."""
        client = Redis.from_url(self.url, socket_timeout=0.5, socket_connect_timeout=0.5)
        try:
            await client.ping()
        except (RedisError, OSError):
            return False
        finally:
            await client.aclose()
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


@asynccontextmanager
async def redis_server() -> AsyncIterator[RedisServer]:
    """Lend a running server."""
    folder = Path(tempfile.mkdtemp(prefix="memlane-redis-"))
    server = RedisServer(folder)
    try:
        await server.start()
        yield server
    finally:
        server.thaw()
        await server.stop()
        shutil.rmtree(folder)
