"""Two `api`, two `gateway` and a `worker` on one machine, real Postgres and Redis; each may be killed and upgraded."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from memlane.storage.migrate import migrate
from soak.embedder import DIMENSIONS, MODEL
from support.postgres import fresh_database, private_server
from support.redis import redis_server
from support.service import Deployment, free_port

ROLES = ("api", "gateway", "worker", "api", "gateway")
START_SECONDS = 60.0
NOTICE_SECONDS = 0.3
"""How long a balancer sends to a process that no longer accepts: the period of its health check."""
RESTART_SECONDS = 0.5
"""How long a killed process is gone before its container is started again."""


@dataclass(eq=False)
class Slot:
    """One place of a role, as a pod of a Deployment: its process changes, and perhaps its port."""

    role: str
    number: int
    environment: dict[str, str]
    folder: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    memory_kib: int = 0
    cpu_seconds: float = 0.0
    _starts: int = 0

    @property
    def name(self) -> str:
        """For the report."""
        return f"{self.role} {self.number}"

    @property
    def url(self) -> str:
        """Where it is now."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Start a process, and return when it accepts."""
        self.port = port or free_port()
        self.process = await self._spawn(self.port)

    async def _spawn(self, port: int) -> "subprocess.Popen[bytes]":
        self._starts += 1
        with (self.folder / f"{self.role}-{self.number}-{self._starts}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "memlane", self.role, "--host", "127.0.0.1", "--port", str(port)],
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        async with httpx.AsyncClient(timeout=2) as client, asyncio.timeout(START_SECONDS):
            while True:
                assert process.poll() is None, f"{self.name} did not start"
                with suppress(httpx.TransportError):
                    if (await client.get(f"http://127.0.0.1:{port}/api/accepting")).status_code == httpx.codes.OK:
                        return process
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """SIGKILL; after a moment it is started again at the same place."""
        self._note()
        assert self.process is not None
        self.process.kill()
        await asyncio.to_thread(self.process.wait)
        await asyncio.sleep(RESTART_SECONDS)
        await self.start(self.port)

    async def upgrade(self) -> int:
        """A rolling upgrade: a new process first, then SIGTERM to the old one. Gives its exit code."""
        self._note()
        old, port = self.process, free_port()
        assert old is not None
        fresh = await self._spawn(port)
        old.send_signal(signal.SIGTERM)
        await asyncio.sleep(NOTICE_SECONDS)
        self.process, self.port = fresh, port
        return await asyncio.to_thread(old.wait, 60)

    def stop(self) -> None:
        """End it."""
        self._note()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _note(self) -> None:
        """Remember the largest memory, and the processor's time of all its processes."""
        if self.process is None or self.process.poll() is not None:
            return
        with suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            self.memory_kib = max(
                self.memory_kib, next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
            )
            times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            self.cpu_seconds += (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Fleet:
    """Everything that runs."""

    deployment: Deployment
    slots: list[Slot]
    folder: Path

    def of(self, role: str) -> list[Slot]:
        """The places of a role."""
        return [slot for slot in self.slots if slot.role == role]

    def errors(self) -> list[str]:
        """What any process logged as an error."""
        return list(_error_lines(self.folder))

    async def size(self) -> str:
        """How much room a memory takes in the database, with its indexes and its lines in the ledger."""
        (row,) = await self.deployment.fetch(
            "select (select count(*) from memories) as rows, pg_total_relation_size('memories') as memories,"
            " pg_total_relation_size('write_ledger') + pg_total_relation_size('idempotency_keys') as writes"
        )
        each = row["memories"] / max(1, row["rows"])
        return (
            f"{each:,.0f} bytes for each of {row['rows']:,} memories ({DIMENSIONS} dimensions, 2 bytes each),"
            f" and {row['writes'] / max(1, row['rows']):,.0f} of ledger and answers"
        )

    async def live_rows(self) -> dict[str, dict[str, str]]:
        """The database's live rows: content by user ('' is the project) and id."""
        rows = await self.deployment.fetch(
            "select c.user_id, m.id::text, m.content from memories m"
            " join channels c on c.project_id = m.project_id and c.id = m.channel_id where m.retired_at is null"
        )
        found: dict[str, dict[str, str]] = {}
        for row in rows:
            found.setdefault(row["user_id"], {})[row["id"]] = row["content"]
        return found


def _error_lines(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.log")):
        for line in path.read_text().splitlines():
            if '"level":"error"' in line or not line.startswith("{"):
                yield f"{path.stem}: {line[:300]}"


@asynccontextmanager
async def running_fleet(*, durable: bool) -> AsyncIterator[Fleet]:
    """Start everything; at the end all processes are gone.

    Args:
        durable: Postgres syncs each commit to disk, as in production.
    """
    embedder_port = free_port()
    paths = {"PYTHONPATH": str(Path(__file__).parents[1])}
    embedder = subprocess.Popen(
        [sys.executable, "-m", "soak.embedder", str(embedder_port)], env={"PATH": os.environ["PATH"], **paths}
    )
    try:
        async with private_server(durable=durable) as postgres, redis_server() as redis:
            deployment = Deployment(await fresh_database(postgres))
            await migrate(deployment.dsn)
            settings: Mapping[str, str] = deployment.environment(
                REDIS_URL=redis.url,
                MEMLANE_DRAIN_SECONDS="1",
                MEMLANE_LOG_LEVEL="WARNING",
                # Five processes, one more during an upgrade, and the embedded Postgres takes 100 in all.
                MEMLANE_DATABASE_POOL="14",
                MEMORY_EMBEDDINGS_URL=f"http://127.0.0.1:{embedder_port}",
                MEMORY_EMBEDDING_MODEL=MODEL,
                MEMORY_EMBEDDING_DIMENSIONS=str(DIMENSIONS),
            )
            with tempfile.TemporaryDirectory(prefix="memlane-soak-") as folder:
                slots = [Slot(role, place, dict(settings), Path(folder)) for place, role in enumerate(ROLES)]
                fleet = Fleet(deployment, slots, Path(folder))
                try:
                    for slot in slots:
                        await slot.start()
                    yield fleet
                finally:
                    for slot in slots:
                        slot.stop()
    finally:
        embedder.kill()
        embedder.wait()
