"""What the stream's tests share: a person with a project of their own, rows made by SQL, and the parts of a process."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import asyncpg

from memlane.app import Process
from memlane.auth.join_tokens import JoinTokens, parse_join_secrets
from memlane.domain.events import Change, present_state
from memlane.domain.memory import Position
from memlane.domain.stream import ChannelKey, Hint, JoinClaims
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.observability.metrics import REGISTRY
from memlane.realtime.endpoint import StreamEndpoint
from memlane.realtime.hub import Hub
from memlane.storage.migrate import migrate
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.streams import PostgresStreams
from memlane.usecases.ports import Clock, Embedder
from support.postgres import fresh_database, template_database
from support.service import JOIN_SECRET, Deployment, Service, headers_of, running_service
from support.stream_client import StreamClient, opened

TOKENS = JoinTokens(parse_join_secrets(JOIN_SECRET))
"""Signs as the service under test does."""

_numbers = itertools.count(1)

_BULK = """
with head as (
    update channels set seq = seq + $3 where project_id = $1 and id = $2 returning seq - $3 as began, scope
)
insert into memories (project_id, id, channel_id, scope, kind, content, created_at, updated_at, retired_at, seq,
                      canonical_version, terms, terms_version, space_id, embedding)
select $1, gen_random_uuid(), $2, scope, 'topical', 'row ' || n || ' ' || $4, now() + n * interval '1 microsecond',
       now() - make_interval(secs => $5), case when $6 then now() end, began + n,
       1, '{}', 1, (select min(id) from embedding_spaces), array_fill(0.05::real, array[384])::halfvec
  from head, generate_series(1, $3::int) n
returning id::text, seq
"""


@dataclass(frozen=True, slots=True)
class Tickets:
    """What `POST /api/memories/subscribe` gave."""

    token: str
    topic: str
    project_token: str
    project_topic: str


@dataclass(frozen=True, slots=True)
class Person:
    """A user of a project, with a key that allows everything."""

    service: Service
    slug: str
    key: str
    user: str

    @classmethod
    async def new(cls, service: Service, user: str = "u1", **options: Any) -> "Person":
        """A user of a fresh project."""
        slug = f"s{os.getpid()}-{next(_numbers)}"
        return cls(service, slug, await service.deployment.key(slug, **options), user)

    def other(self, user: str) -> "Person":
        """Another user of the same project."""
        return replace(self, user=user)

    @property
    def headers(self) -> dict[str, Any]:
        return headers_of(self.key, self.user)

    @property
    def url(self) -> str:
        return self.service.url

    async def save(self, content: str, **more: Any) -> Any:
        return await self.service.save(self.headers, content, **more)

    async def retire(self, memory_id: str) -> None:
        answer = await self.service.client.delete(f"/api/memories/{memory_id}", headers=self.headers)
        assert answer.status_code == 204, answer.text

    async def replace(self, memory_id: str, content: str) -> Any:
        answer = await self.service.client.patch(
            f"/api/memories/{memory_id}", headers=self.headers, json={"content": content, "kind": "topical"}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def list(self) -> Any:
        return await self.service.list(self.headers)

    async def tickets(self) -> Tickets:
        answer = await self.service.client.post("/api/memories/subscribe", headers=self.headers)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return Tickets(
            body["joinToken"],
            f"user_meta:memories:{body['joinCode']}",
            body["projectJoinToken"],
            f"project_meta:memories:{body['projectJoinCode']}",
        )

    async def channel(self, scope: str = "user") -> "Channel":
        """The person's channel; there is one after the first write or subscription."""
        rows = await self.service.deployment.fetch(
            "select c.project_id::text, c.id::text, c.seq, c.epoch"
            " from channels c join projects p on p.id = c.project_id"
            " where p.slug = $1 and c.scope = $2 and c.user_id = $3",
            self.slug,
            scope,
            self.user if scope == "user" else "",
        )
        return Channel(self.service.deployment, **dict(rows[0]))

    @asynccontextmanager
    async def listening(self, topic_of: str = "user", **payload: Any) -> AsyncIterator[StreamClient]:
        """A socket of a new token that has joined one topic."""
        tickets = await self.tickets()
        token, topic = (
            (tickets.token, tickets.topic) if topic_of == "user" else (tickets.project_token, tickets.project_topic)
        )
        async with opened(self.url, token) as client:
            await client.joined(topic, payload)
            yield client


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as it stood when it was looked up."""

    deployment: Deployment
    project_id: str
    id: str
    seq: int
    epoch: str

    @property
    def key(self) -> ChannelKey:
        return ChannelKey(self.project_id, self.id)

    async def grow(
        self, count: int, text: str = "", *, retired: bool = False, seconds_old: float = 0.0
    ) -> list[tuple[str, int]]:
        """Insert rows by SQL, so that no hint tells of them; id and seq of each, in order."""
        rows = await self.deployment.fetch(_BULK, self.project_id, self.id, count, text, float(seconds_old), retired)
        return sorted(((row["id"], row["seq"]) for row in rows), key=lambda row: row[1])

    async def touch(self, memory_id: str, content: str) -> int:
        """Change a row by SQL; its new seq."""
        rows = await self.deployment.fetch(
            "with head as (update channels set seq = seq + 1 where project_id = $1 and id = $2 returning seq)"
            " update memories m set content = $4, seq = head.seq, updated_at = now() from head"
            " where m.project_id = $1 and m.id = $3 returning m.seq",
            self.project_id,
            self.id,
            memory_id,
            content,
        )
        seq: int = rows[0]["seq"]
        return seq

    async def hints(self, since: int) -> list[Hint]:
        """The hints that tell of all changes since a seq, as the writer would have made them."""
        organization = await self.deployment.fetch(
            "select organization_id::text from projects where id = $1", self.project_id
        )
        pool = Pool(self.deployment.dsn, PoolLimits(max_size=1))
        try:
            page = await PostgresStreams(pool).changes_since(self.key, since, 1000)
        finally:
            await pool.aclose()
        return [
            Hint(
                self.key,
                self.epoch,
                row.seq,
                present_state(
                    row.memory,
                    Change(
                        organization[0]["organization_id"],
                        self.project_id,
                        Position(self.epoch, row.seq),
                        row.memory.updated_at,
                    ),
                ),
                sent_at=time.time(),
            )
            for row in page.rows
        ]


def endpoint_of(process: Process) -> StreamEndpoint:
    """The stream's endpoint among a process's routes."""
    for route in process.routes:
        endpoint = getattr(route, "endpoint", None)
        if isinstance(endpoint, StreamEndpoint):
            return endpoint
    raise AssertionError("the process serves no stream")


def hub_of(process: Process) -> Hub:
    return endpoint_of(process).hub


def claims_of(token: str, **changes: Any) -> JoinClaims:
    """What a token of ours says, with changes."""
    return replace(TOKENS.verify(token), **changes)


def resigned(token: str, **changes: Any) -> str:
    """A token of ours with other claims, well signed."""
    return TOKENS.mint(claims_of(token, **changes))


def metric(name: str, **labels: str) -> float:
    """The present value of a metric; 0 where it has none yet."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


@dataclass(slots=True)
class Watch:
    """How much a metric moved since the watch began."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = metric(self.name, **self.labels)

    @property
    def moved(self) -> float:
        return metric(self.name, **self.labels) - self.began


async def eventually(holds: Callable[[], bool | Awaitable[bool]], what: str, seconds: float = 10.0) -> float:
    """Wait until something holds; how long it took, in seconds."""
    began = time.monotonic()
    while True:
        held = holds()
        if held if isinstance(held, bool) else await held:
            return time.monotonic() - began
        assert time.monotonic() < began + seconds, f"{what}: not within {seconds:g} s"
        await asyncio.sleep(0.02)


def second_of(moment: datetime) -> datetime:
    """A token's time is in whole seconds."""
    return moment.replace(microsecond=0)


async def database_of(deployment: Deployment) -> "asyncpg.Connection[asyncpg.Record]":
    """A connection for what needs one of its own, such as a lock."""
    return await asyncpg.connect(deployment.dsn, timeout=5)


class Lent:
    """The shared embedder; a service that stops does not close it."""

    def __init__(self, owner: Embedder) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> object:
        return getattr(self._owner, name)

    async def aclose(self) -> None:
        """Leave it open for the next test."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A served process with every role."""

    service: Service
    process: Process

    @property
    def hub(self) -> Hub:
        return hub_of(self.process)

    async def person(self, **options: Any) -> Person:
        return await Person.new(self.service, **options)


@asynccontextmanager
async def serving(
    deployment: Deployment, embedder: Embedder, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Stream]:
    """Serve all roles in this process, with changed settings."""
    lent: Any = Lent(embedder)
    async with running_service(deployment, deployment.settings(**settings), embedder=lent, clock=clock) as both:
        yield Stream(*both)


async def migrated(server: EmbeddedPostgres) -> Deployment:
    """A fresh migrated database."""
    return Deployment(await fresh_database(server, await template_database(server, "migrated", _migrate)))


async def _migrate(dsn: str) -> None:
    await migrate(dsn)
