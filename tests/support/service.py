"""A running service for tests: the real server over real sockets on a fresh, migrated database.

`running_service` serves inside this process (fast; the clock and the embedder can be handed in);
`api_process` starts `memlane api` as a process of its own, for races between processes and for kills.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from memlane.app import Process, application, build
from memlane.auth.licenses import LicenseKeyPair, generate_keypair, mint_license
from memlane.auth.runtime_keys import mint_runtime_key
from memlane.cli.server import bound_socket, server_of
from memlane.config import Settings
from memlane.domain.grant import FULL_GRANT, Grant
from memlane.domain.lane import LaneMode, Trust
from memlane.rest.console import Console
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.tenants import NewKey, Project, Tenants
from memlane.usecases.ports import Clock, Embedder

JOIN_SECRET = "a-join-secret-for-tests-of-32-bytes!"
START_SECONDS = 30.0


class MovableClock:
    """The system's clock, moved by as much as a test says."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset


@dataclass(frozen=True, slots=True)
class Deployment:
    """A migrated database with a license for the organization `acme`."""

    dsn: str
    signer: LicenseKeyPair = field(default_factory=generate_keypair)
    organization: str = "acme"

    def license(
        self,
        *,
        features: Mapping[str, bool] | None = None,
        organization: str | None = None,
        starts_in: timedelta = timedelta(days=-1),
        ends_in: timedelta = timedelta(days=30),
    ) -> str:
        now = datetime.now(UTC)
        return mint_license(
            self.signer.private_pem,
            key_id="test",
            organization=organization or self.organization,
            plan="enterprise",
            features={"memory": True} if features is None else features,
            limits={},
            not_before=now + starts_in,
            expires_at=now + ends_in,
            now=now,
        )

    def settings(self, **changes: Any) -> Settings:
        settings = Settings(
            database_url=self.dsn,
            deployment_mode="self_hosted",
            join_secrets=JOIN_SECRET,
            embeddings_url="local://",
            embedding_model="all-MiniLM-L6-v2-int8",
            embedding_dimensions=384,
            license=self.license(),
            license_keys=f"test:{self.signer.public}",
            host="127.0.0.1",
            database_pool=8,
        )
        return replace(settings, **changes)

    def environment(self, **changes: str) -> dict[str, str]:
        """The variables of `memlane api`, without the rest of this process's environment."""
        settings = self.settings()
        return {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": settings.database_url,
            "MEMLANE_DEPLOYMENT_MODE": "self_hosted",
            "MEMLANE_JOIN_SECRETS": JOIN_SECRET,
            "MEMLANE_LICENSE": settings.license or "",
            "MEMLANE_LICENSE_KEYS": settings.license_keys or "",
            "MEMLANE_DATABASE_POOL": "8",
            "MEMORY_EMBEDDINGS_URL": settings.embeddings_url,
            "MEMORY_EMBEDDING_MODEL": settings.embedding_model,
            "MEMORY_EMBEDDING_DIMENSIONS": str(settings.embedding_dimensions),
            **changes,
        }

    async def project(self, slug: str = "shop", organization: str | None = None) -> Project:
        pool = Pool(self.dsn, PoolLimits(max_size=1))
        try:
            return await Tenants(pool).ensure_project(organization or self.organization, slug)
        finally:
            await pool.aclose()

    async def key(
        self,
        project: str = "shop",
        *,
        organization: str | None = None,
        grant: Grant = FULL_GRANT,
        lane: str = "default",
        mode: LaneMode | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        """A new runtime key; with ``mode`` in a lane of that name, made and set to it."""
        pool = Pool(self.dsn, PoolLimits(max_size=1))
        try:
            tenants = Tenants(pool)
            found = await tenants.ensure_project(organization or self.organization, project)
            if mode is not None:
                await tenants.ensure_lane(found, lane, Trust.INTERNAL)
                await self.execute(
                    "update lanes set mode = $3 where project_id = $1 and name = $2", found.id, lane, mode.value
                )
            token = mint_runtime_key(project)
            await tenants.add_key(found, NewKey(token.short, token.hash(), "", grant, lane, expires_at))
            return token.reveal()
        finally:
            await pool.aclose()

    async def fetch(self, sql: str, *values: object) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.dsn, timeout=5)
        try:
            return await connection.fetch(sql, *values)
        finally:
            await connection.close()

    async def execute(self, sql: str, *values: object) -> None:
        await self.fetch(sql, *values)


def headers_of(key: str, user: str = "u1", grant: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The runtime tuple; a user id goes out as UTF-8."""
    headers: dict[str, Any] = {"Authorization": f"Bearer {key}", "X-Cpki-User-Id": user.encode()}
    if grant is not None:
        headers["X-Cpki-Memory-Grant"] = json.dumps(grant)
    return headers


@dataclass(frozen=True, slots=True)
class Service:
    """A served API and a client on it."""

    url: str
    client: httpx.AsyncClient
    deployment: Deployment

    async def save(self, headers: Mapping[str, Any], content: str, kind: str = "topical", **more: Any) -> Any:
        """POST a memory, expect 201, and give the body."""
        answer = await self.client.post(
            "/api/memories", headers=headers, json={"content": content, "kind": kind, **more}
        )
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def list(self, headers: Mapping[str, Any], query: str = "") -> Any:
        """GET the list, expect 200, and give the body."""
        answer = await self.client.get(f"/api/memories{query}", headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def recall(self, headers: Mapping[str, Any], query: str, **more: Any) -> Any:
        """POST a recall, expect 200, and give the body."""
        answer = await self.client.post("/api/memories/recall", headers=headers, json={"query": query, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def running_service(
    deployment: Deployment,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    earlier: Embedder | None = None,
    clock: Clock | None = None,
    console: Callable[[int], Console] | None = None,
) -> AsyncIterator[tuple[Service, Process]]:
    """Serve in this process on a free port of loopback, which ``console`` is told."""
    bound = bound_socket("127.0.0.1", 0)
    process = build(
        settings or deployment.settings(),
        embedder=embedder,
        earlier_embedder=earlier,
        clock=clock,
        console=None if console is None else console(bound.getsockname()[1]),
    )
    server = server_of(application(process))
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[bound]))
    try:
        async with asyncio.timeout(START_SECONDS):
            while not server.started:
                if serving.done():
                    await serving
                    raise RuntimeError("the service did not start")
                await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            yield Service(url, client, deployment), process
    finally:
        server.should_exit = True
        await serving


class _no_signals:  # noqa: N801 - stands in for a context manager method
    def __enter__(self) -> None:
        """Signals stay with pytest."""

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""


@dataclass(slots=True)
class ApiProcess:
    """A `memlane api` process."""

    process: "subprocess.Popen[bytes]"
    url: str
    log_path: Path

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(10)

    def terminate(self) -> int:
        """SIGTERM, and wait for the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    @property
    def log(self) -> str:
        """All that it logged."""
        return self.log_path.read_text()


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def api_process(
    environment: Mapping[str, str], *, role: str = "api", wait: bool = True
) -> AsyncIterator[ApiProcess]:
    """Start `memlane <role>` on a free port; killed at the end when it still runs."""
    port = free_port()
    with tempfile.NamedTemporaryFile(prefix="memlane-api-", suffix=".log", delete=False) as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "memlane", role, "--host", "127.0.0.1", "--port", str(port)],
            env=dict(environment),
            stdout=log_file,
            stderr=log_file,
        )
    started = ApiProcess(process, f"http://127.0.0.1:{port}", Path(log_file.name))
    try:
        if wait:
            await wait_until_accepting(started)
        yield started
    finally:
        if process.poll() is None:
            started.kill()
        started.log_path.unlink()


async def wait_until_accepting(started: ApiProcess) -> None:
    """Return when the process takes requests; fail with its log when it ends before."""
    async with httpx.AsyncClient() as client, asyncio.timeout(START_SECONDS):
        while True:
            if started.process.poll() is not None:
                raise RuntimeError(f"memlane ended with {started.process.returncode}: {started.log}")
            try:
                if (await client.get(f"{started.url}/api/accepting")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
