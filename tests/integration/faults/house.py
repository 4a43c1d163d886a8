"""What the fault tests share: a tenant, what a caller sees of a fault, and what must hold of every history."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.ledger import Ledger
from memlane.storage.migrate import migrate
from memlane.storage.pool import Pool, PoolLimits
from support.embedding_server import EmbeddingServer
from support.postgres import fresh_database
from support.service import ApiProcess, Deployment, api_process, headers_of

PATIENCE = 5.0
"""Seconds within which every request is answered, whatever is broken."""
MODEL = "sentence-transformers/all-MiniLM-L6-v2"

_numbers = itertools.count(1)


def statement(number: int) -> str:
    """A text that says something else than that of any other number."""
    return f"The locker {number} is reserved for visitor number {number}."


@dataclass(frozen=True, slots=True)
class Tenant:
    """A project of its own, with a key that allows everything."""

    deployment: Deployment
    slug: str
    key: str

    @classmethod
    async def new(cls, deployment: Deployment, **options: Any) -> "Tenant":
        slug = f"p{os.getpid()}-{next(_numbers)}"
        return cls(deployment, slug, await deployment.key(slug, **options))

    def headers(self, user: str = "u1", **more: str) -> dict[str, Any]:
        return headers_of(self.key, user) | more

    async def rows(self, sql: str, *values: object) -> list[Any]:
        """Rows of the database; ``$1`` is this project's id."""
        project = await self.deployment.fetch("select id from projects where slug = $1", self.slug)
        return await self.deployment.fetch(sql, project[0]["id"], *values)

    async def live(self) -> list[str]:
        """What the live rows of every user say."""
        rows = await self.rows("select content from memories where project_id = $1 and retired_at is null")
        return sorted(row["content"] for row in rows)


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer and how long it took, in seconds."""

    answer: httpx.Response
    seconds: float

    @property
    def error(self) -> str:
        code: str = self.answer.json()["error"]["code"]
        return code


async def timed(asked: Awaitable[httpx.Response]) -> Timed:
    began = time.monotonic()
    answer = await asked
    return Timed(answer, time.monotonic() - began)


def assert_unavailable(got: Timed, *codes: str) -> None:
    """The contract's answer to an outage: 503 in time, a code, and when to come again."""
    assert got.answer.status_code == 503, got.answer.text
    assert got.error in codes
    assert got.seconds < PATIENCE
    assert int(got.answer.headers["retry-after"]) >= 1


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]], what: str, seconds: float = 10.0, pause: float = 0.05
) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while True:
        held = holds()
        if held if isinstance(held, bool) else await held:
            return
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        await asyncio.sleep(pause)


async def status_is(client: httpx.AsyncClient, path: str, status: int, seconds: float = 10.0) -> None:
    """Wait until a GET answers with a status."""

    async def holds() -> bool:
        return (await client.get(path)).status_code == status

    await eventually(holds, f"{path} answers {status}", seconds)


async def save(
    client: httpx.AsyncClient, headers: Mapping[str, Any], content: str, kind: str = "topical", **more: Any
) -> httpx.Response:
    return await client.post("/api/memories", headers=headers, json={"content": content, "kind": kind, **more})


def drafts(numbers: Iterable[int], **more: Any) -> list[dict[str, Any]]:
    """Memories of a batch that say different things."""
    return [{"content": statement(number), "kind": "topical", **more} for number in numbers]


async def save_batch(
    client: httpx.AsyncClient, headers: Mapping[str, Any], memories: list[dict[str, Any]]
) -> httpx.Response:
    return await client.post("/api/memories/batch", headers=headers, json={"memories": memories})


def told(got: Timed) -> tuple[list[str], list[str]]:
    """Of a batch that was answered: what the saved ones say, and the codes of the others; an outcome for each."""
    assert got.answer.status_code == 200, got.answer.text
    outcomes = got.answer.json()["outcomes"]
    saved = [one["content"] for one in outcomes if "id" in one]
    return saved, [one["error"]["code"] for one in outcomes if "error" in one]


async def _assert_sound_ledgers(tenant: Tenant) -> None:
    pool = Pool(tenant.deployment.dsn, PoolLimits(max_size=1))
    try:
        ledger = Ledger(pool)
        async for chain in ledger.chains((await tenant.rows("select $1::uuid::text"))[0][0]):
            report = await ledger.check(chain, {})
            assert (report.fault, report.rows) == (None, chain.head.seq), "the chain of every channel holds"
    finally:
        await pool.aclose()
    miscounted = await tenant.rows(
        "select c.id from channels c where project_id = $1 and live_rows <> (select count(*) from memories m"
        " where m.project_id = c.project_id and m.channel_id = c.id and m.retired_at is null)"
    )
    assert miscounted == [], "every channel knows how many live rows it has"


async def assert_sound_history(tenant: Tenant) -> None:
    """What must hold of a project whatever raced: a dense seq, a ledger row for each change, no two live twins."""
    heads = await tenant.rows(
        "select id, seq, coalesce((select array_agg(l.seq order by l.seq) from write_ledger l"
        " where l.project_id = c.project_id and l.channel_id = c.id), '{}') as ledger"
        " from channels c where project_id = $1"
    )
    for head in heads:
        assert head["ledger"] == list(range(1, head["seq"] + 1)), "one ledger row for each seq, none missing or twice"
    await _assert_sound_ledgers(tenant)
    torn = await tenant.rows(
        "select m.id from memories m join lateral (select l.seq, l.operation from write_ledger l"
        " where l.project_id = m.project_id and l.memory_id = m.id order by l.seq desc limit 1) last on true"
        " where m.project_id = $1 and (m.seq <> last.seq"
        " or (m.retired_at is null) <> (last.operation in ('created', 'absorbed', 'restored')))"
    )
    assert torn == [], "a row is as its last ledger line says"
    assert (
        await tenant.rows(
            "select 1 from memories m where project_id = $1 and not exists (select 1 from write_ledger l"
            " where l.project_id = m.project_id and l.memory_id = m.id and l.operation = 'created')"
        )
        == []
    ), "every row was created by a ledger line"
    assert (
        await tenant.rows(
            "select 1 from memories where project_id = $1 and retired_at is null"
            " group by channel_id, kind, absorb_key having count(*) > 1"
        )
        == []
    ), "no two live rows say the same"
    assert (
        await tenant.rows(
            "select 1 from memories old where project_id = $1 and superseded_by is not null and not exists"
            " (select 1 from memories new where new.project_id = old.project_id and new.id = old.superseded_by)"
        )
        == []
    ), "whatever superseded a row is there"


@dataclass(frozen=True, slots=True)
class Running:
    """A `memlane api` process and a client on it."""

    api: ApiProcess
    client: httpx.AsyncClient


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes on one database."""

    deployment: Deployment
    first: Running
    second: Running

    @property
    def clients(self) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
        return self.first.client, self.second.client

    async def tenant(self) -> Tenant:
        return await Tenant.new(self.deployment)


@asynccontextmanager
async def running_process(
    deployment: Deployment, embeddings: EmbeddingServer, **changes: str
) -> AsyncIterator[Running]:
    """Start `memlane api` on the embedding service."""
    environment = deployment.environment(**{**embedder_variables(embeddings), "MEMLANE_DRAIN_SECONDS": "0", **changes})
    limits = httpx.Limits(max_connections=100)
    async with (
        api_process(environment) as api,
        httpx.AsyncClient(base_url=api.url, timeout=20, limits=limits) as client,
    ):
        yield Running(api, client)


def embedder_variables(embeddings: EmbeddingServer) -> dict[str, str]:
    return {
        "MEMORY_EMBEDDINGS_URL": embeddings.url,
        "MEMORY_EMBEDDING_MODEL": embeddings.model,
        "MEMORY_EMBEDDING_DIMENSIONS": str(embeddings.dimensions),
    }


async def migrated(server: Any) -> Deployment:
    """A migrated database on a server that the test owns."""
    dsn = await fresh_database(server)
    await migrate(dsn)
    return Deployment(dsn)


@dataclass(slots=True)
class Acknowledged:
    """What was acknowledged to writers: id to content."""

    saved: dict[str, str] = field(default_factory=dict)
    refused: int = 0

    async def write(
        self, client: httpx.AsyncClient, tenant: Tenant, numbers: "itertools.count[int]", until: asyncio.Event
    ) -> None:
        """Save one memory after another; a broken connection or a 5xx acknowledges nothing."""
        while not until.is_set():
            number = next(numbers)
            try:
                answer = await save(client, tenant.headers(f"u{number % 3}"), statement(number))
            except httpx.TransportError:
                self.refused += 1
                await asyncio.sleep(0.02)
                continue
            if answer.status_code == 201:
                self.saved[answer.json()["id"]] = statement(number)
            else:
                assert answer.status_code == 503, answer.text
                self.refused += 1
                await asyncio.sleep(0.02)

    async def assert_nothing_is_missing(self, tenant: Tenant) -> None:
        rows = await tenant.rows("select id::text, content, retired_at from memories where project_id = $1")
        kept = {row["id"]: row["content"] for row in rows if row["retired_at"] is None}
        assert {memory_id: kept.get(memory_id) for memory_id in self.saved} == self.saved


@asynccontextmanager
async def session(deployment: Deployment) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A session beside the product's own."""
    connection = await asyncpg.connect(deployment.dsn, timeout=5)
    try:
        yield connection
    finally:
        await connection.close()


class frozen:  # noqa: N801 - reads as a word in `with frozen(server):`
    """Stops every process of a server with SIGSTOP: connections stand, and nothing answers."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        assert server.pid is not None
        self._parent = server.pid

    def __enter__(self) -> None:
        # The parent first, so that no child is born meanwhile.
        os.kill(self._parent, signal.SIGSTOP)
        self._pids = [self._parent, *_children(self._parent)]
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for pid in self._pids[::-1]:
            os.kill(pid, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
