"""A deployment as it stands in production: two APIs, two gateways, a balancer, one Postgres and one Redis."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import httpx

from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import migrate
from oracle.balancer import Backend, Balancer
from oracle.driver import Driver
from support.postgres import fresh_database, private_server
from support.redis import RedisServer, redis_server
from support.service import ApiProcess, Deployment, api_process, headers_of

FLOOD_CHARACTERS = 8000
FLOOD_BATCH = 25
FLOOD_SECONDS = 20.0
"""A reader that has stalled for 30 s is given up by its own heartbeat."""


@dataclass(eq=False)
class Gateway:
    """A running gateway and its place in the balancer."""

    process: ApiProcess
    backend: Backend


@dataclass(eq=False)
class Fleet:
    """Everything that a test may break."""

    deployment: Deployment
    postgres: EmbeddedPostgres
    redis: RedisServer
    balancer: Balancer
    driver: Driver
    apis: list[ApiProcess]
    environment: dict[str, str]
    client: httpx.AsyncClient
    stack: AsyncExitStack
    gateways: list[Gateway] = field(default_factory=list)
    _logs: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Remember the logs."""
        self._logs = [api.log_path for api in self.apis]

    async def out_of_reach(self) -> None:
        """Return when nothing is connected nor can be."""
        while not self.balancer.refusing or self.balancer.links:  # noqa: ASYNC110 - two plain values
            await asyncio.sleep(0.01)

    @property
    def api_urls(self) -> list[str]:
        """Where the APIs are."""
        return [api.url for api in self.apis]

    async def new_gateway(self) -> Gateway:
        """Start a gateway that takes part in the balancer."""
        process = await self.stack.enter_async_context(api_process(self.environment, role="gateway"))
        self._logs.append(process.log_path)
        return Gateway(process, Backend(int(process.url.rpartition(":")[2])))

    async def add_gateway(self) -> None:
        """One gateway more."""
        gateway = await self.new_gateway()
        self.gateways.append(gateway)
        self.balancer.backends.append(gateway.backend)

    def complaints(self) -> list[str]:
        """What every process logged as an error, the dead ones included."""
        lines = [line for path in self._logs for line in path.read_text().splitlines()]
        return [line for line in lines if _is_error(line)]

    def kill_gateway(self, gateway: Gateway) -> None:
        """SIGKILL; the balancer finds out by itself."""
        gateway.process.kill()
        self.forget(gateway)

    def forget(self, gateway: Gateway) -> None:
        """The gateway is gone."""
        self.gateways.remove(gateway)
        self.balancer.backends.remove(gateway.backend)

    async def replace_all(self, *, outage_seconds: float, end: Callable[[Gateway], Awaitable[None]]) -> None:
        """End every gateway. From when the last socket has closed nothing answers for exactly so long.

        Args:
            outage_seconds: How long. The new gateways start before, so that their start takes nothing of it.
            end: Ends one.
        """
        old, fresh = list(self.gateways), await asyncio.gather(*(self.new_gateway() for _ in self.gateways))
        self.balancer.refusing = True
        ending = asyncio.gather(*(end(gateway) for gateway in old))
        await self.out_of_reach()
        began = time.monotonic()
        await ending
        for gateway in old:
            self.forget(gateway)
        self.gateways += fresh
        self.balancer.backends += [gateway.backend for gateway in fresh]
        await asyncio.sleep(max(0.0, began + outage_seconds - time.monotonic()))
        self.balancer.refusing = False

    async def save(self, key: str, user: str, content: str, *, kind: str = "topical", scope: str = "user") -> str:
        """Another device of the user saves a memory; gives its id."""
        answer = await self.client.post(
            f"{self.api_urls[0]}/api/memories",
            headers=headers_of(key, user),
            json={"content": content, "kind": kind, "scope": scope},
        )
        assert answer.status_code == 201, answer.text
        saved: str = answer.json()["id"]
        return saved

    async def flood(self, key: str, user: str, rows: int, random: Random) -> None:
        """Save so many memories of 8 KB, a few at a time."""
        left, end = rows, time.monotonic() + FLOOD_SECONDS
        while left > 0 and time.monotonic() < end:
            drafts = [
                {
                    "content": f"Text {random.randrange(10**9)}: {'long text ' * 800}"[:FLOOD_CHARACTERS],
                    "kind": "episodic",
                }
                for _ in range(FLOOD_BATCH)
            ]
            answer = await self.client.post(
                f"{self.api_urls[0]}/api/memories/batch",
                headers=headers_of(key, user),
                json={"memories": drafts},
                timeout=40,
            )
            if answer.status_code == httpx.codes.OK:
                left -= FLOOD_BATCH
            else:
                assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text

    async def retire(self, key: str, user: str, memory_id: str) -> None:
        """Another device of the user retires a memory."""
        answer = await self.client.delete(f"{self.api_urls[1]}/api/memories/{memory_id}", headers=headers_of(key, user))
        assert answer.status_code == 204, answer.text

    async def live_rows(self, project: str) -> dict[str, dict[str, list[str]]]:
        """The database's live rows of a project by user ('' is the project scope) and id."""
        rows = await self.deployment.fetch(
            "select c.user_id, m.id::text, m.kind, m.scope, m.content from memories m"
            " join channels c on c.project_id = m.project_id and c.id = m.channel_id"
            " join projects p on p.id = m.project_id where p.slug = $1 and m.retired_at is null",
            project,
        )
        found: dict[str, dict[str, list[str]]] = {}
        for row in rows:
            found.setdefault(row["user_id"], {})[row["id"]] = [row["kind"], row["scope"], row["content"]]
        return found

    async def status(self, gateway: Gateway, path: str) -> int:
        """The status of a gateway's route."""
        return (await self.client.get(f"{gateway.process.url}{path}")).status_code

    async def shows(self, name: str, memory_id: str) -> bool:
        """Whether a client shows a row."""
        return memory_id in (await self.driver.report(name))["rows"]


@asynccontextmanager
async def running_fleet(*, gateways: int = 2, **environment: str) -> AsyncIterator[Fleet]:
    """Start everything; ends with all processes killed."""
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(private_server())
        deployment = Deployment(await fresh_database(postgres))
        await migrate(deployment.dsn)
        redis = await stack.enter_async_context(redis_server())
        driver = await stack.enter_async_context(Driver())
        settings = deployment.environment(
            REDIS_URL=redis.url,
            MEMLANE_DRAIN_SECONDS="1",
            MEMLANE_LOG_LEVEL="WARNING",
            **await driver.embedder(),
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            **environment,
        )
        apis = [await stack.enter_async_context(api_process(settings)) for _ in range(2)]
        balancer = await stack.enter_async_context(Balancer())
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=20))
        fleet = Fleet(deployment, postgres, redis, balancer, driver, apis, settings, client, stack)
        for _ in range(gateways):
            await fleet.add_gateway()
        yield fleet


def _is_error(line: str) -> bool:
    try:
        return bool(json.loads(line)["level"] == "error")
    except (ValueError, KeyError, TypeError):
        return True


async def eventually(holds: Callable[[], Awaitable[bool]], what: str, seconds: float = 10.0) -> float:
    """Wait until something holds, and give how long that took, in seconds."""
    began = time.monotonic()
    while not await holds():
        assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.1)
    return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class Page:
    """One user's page in several browsers; ``save`` and ``retire`` come from a device that is none of them."""

    fleet: Fleet
    project: str
    key: str
    user: str
    names: tuple[str, ...]

    async def save(self, content: str, **more: str) -> str:
        """Save a memory and give its id."""
        return await self.fleet.save(self.key, self.user, content, **more)

    async def retire(self, memory_id: str) -> None:
        """Retire a memory."""
        await self.fleet.retire(self.key, self.user, memory_id)

    async def connected(self) -> bool:
        """Whether every browser is."""
        return all(one["realtimeStatus"] == "connected" for one in await self.fleet.driver.reports(self.names))

    async def show(self, memory_id: str) -> bool:
        """Whether every browser shows a row."""
        return all(memory_id in one["rows"] for one in await self.fleet.driver.reports(self.names))

    async def hide(self, memory_id: str) -> bool:
        """Whether no browser shows a row."""
        return not any(memory_id in one["rows"] for one in await self.fleet.driver.reports(self.names))

    async def came(self, name: str, memory_id: str) -> int:
        """How often a row appeared in a browser."""
        return sum(memory_id in entry.get("came", ()) for entry in await self.fleet.driver.journal(name))

    async def went(self, name: str, memory_id: str) -> int:
        """How often a row vanished from a browser."""
        return sum(memory_id in entry.get("went", ()) for entry in await self.fleet.driver.journal(name))

    async def are_true(self) -> bool:
        """Whether every browser shows the database's rows."""
        live = await self.fleet.live_rows(self.project)
        true = {**live.get("", {}), **live.get(self.user, {})}
        return all(one["rows"] == true for one in await self.fleet.driver.reports(self.names))

    async def never_unavailable(self) -> bool:
        """Whether no browser has ever shown that, nor heard anything out of order."""
        return not any(
            one["violations"] or any(moment["status"] == "unavailable" for moment in one["statuses"])
            for one in await self.fleet.driver.reports(self.names)
        )
