"""The one place where objects are built and handed over: a process of one role, or of several."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.routing import BaseRoute, Router, WebSocketRoute

from memlane.auth.join_tokens import JoinTokens, parse_join_secrets
from memlane.auth.license_entitlements import LicenseEntitlements
from memlane.auth.licenses import parse_trusted_keys
from memlane.auth.stream_tickets import StreamTickets
from memlane.config import Role, Settings
from memlane.domain.entitlement import LICENSE_REJECTED, EntitlementFault
from memlane.domain.errors import EmbedderUnavailable, StorageUnavailable
from memlane.domain.rates import Rate
from memlane.embedding.configured import make_earlier_embedder, make_embedder, make_judge, make_reranker
from memlane.limits.local import LocalLimiter
from memlane.limits.redis_limiter import RedisLimiter
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.observability.supervisor import Supervisor
from memlane.phoenix.close_codes import CloseCode
from memlane.realtime.endpoint import StreamEndpoint
from memlane.realtime.fanout import LocalHints
from memlane.realtime.hub import Hub
from memlane.realtime.redis_fanout import RedisPublisher, RedisSubscription
from memlane.realtime.sessions import Sessions
from memlane.rest.application import health_routes, rest_routes
from memlane.rest.console import Console, console_routes
from memlane.rest.handlers import MemoryHandlers
from memlane.rest.health import Acceptance, Check, EntitlementHandlers, HealthHandlers
from memlane.screening.secrets import DetectSecrets
from memlane.storage.managed_entitlements import ManagedEntitlements
from memlane.storage.migrate import pending_migrations
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.recall_marks import BatchedRecallMarks
from memlane.storage.statistics import keep_statistics
from memlane.storage.store import PostgresStore
from memlane.storage.streams import PostgresStreams
from memlane.storage.sweeps import drop_old_answers, drop_old_sessions
from memlane.storage.upkeep import PostgresUpkeep
from memlane.usecases.authenticate import Gate
from memlane.usecases.ports import Clock, Embedder, EntitlementSource, Hints, Services
from memlane.usecases.rate_limits import RateLimits
from memlane.usecases.rekey import rekey_for_ever
from memlane.usecases.silent_hints import SilentHints

STOP_SECONDS = 10.0
"""Longest shutdown of a process's own parts."""
STREAM_WORKERS = 4
"""Tasks that read the table for the stream; each holds one connection at a time."""
DRAIN_BATCH = 50
"""Sockets that are closed at once while draining: all at once would come back all at once."""

Loop = Callable[[], Awaitable[None]]


class SystemClock:
    """Implements `usecases.ports.Clock`."""

    def now(self) -> datetime:
        """See `Clock.now`."""
        return datetime.now(UTC)


@dataclass(slots=True)
class Process:
    """All objects of one server process, and its life: start, drain, stop."""

    settings: Settings
    pool: Pool
    clock: Clock
    supervisor: Supervisor = field(default_factory=Supervisor)
    acceptance: Acceptance = field(default_factory=Acceptance)
    loops: dict[str, Loop] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    closers: list[Loop] = field(default_factory=list)
    contexts: list[Callable[[], AbstractAsyncContextManager[None]]] = field(default_factory=list)
    routes: Sequence[BaseRoute] = ()
    services: Services | None = None
    sessions: Sessions | None = None

    async def start(self) -> None:
        """Probe the embedder, warm the pool, start the background tasks.

        Raises:
            Misconfigured: The embedder answers with another dimension than configured.
        """
        if self.services is not None:
            try:
                await self.services.embedder.probe()
            except EmbedderUnavailable:
                # It may still be loading its model: until it answers, saves are refused with 503.
                log.warning("embedder_not_ready")
        try:
            await self.ping()
        except StorageUnavailable:
            log.warning("database_not_ready")
        for name, loop in self.loops.items():
            self.supervisor.start(name, loop)
        self.acceptance.accepting = True
        log.info("accepting")

    async def drain(self) -> None:
        """Turn `/api/accepting` red, wait for the load balancer, then close the sockets in small jittered batches."""
        self.acceptance.accepting = False
        log.info("draining", seconds=self.settings.drain_seconds)
        await asyncio.sleep(self.settings.drain_seconds)
        self.acceptance.closing = True
        clients = [] if self.sessions is None else list(self.sessions.clients)
        random.shuffle(clients)
        for start in range(0, len(clients), DRAIN_BATCH):
            for client in clients[start : start + DRAIN_BATCH]:
                client.close(CloseCode.SERVICE_RESTART, "the server is restarting")
            await asyncio.sleep(random.uniform(0.02, 0.06))  # noqa: S311 - jitter is no secret

    async def stop(self) -> None:
        """Write what is queued, close everything."""
        self.acceptance.accepting = False
        await self.supervisor.aclose()
        for close in self.closers:
            await close()
        await self.pool.aclose()
        log.info("stopped")

    async def ping(self) -> None:
        """Ask the database for an answer.

        Raises:
            StorageUnavailable: It gives none.
        """
        await self.pool.read(lambda connection: connection.fetchval("select 1"))

    async def check_tasks(self) -> None:
        """For readiness.

        Raises:
            StorageUnavailable: A background task died and waits for its restart.
        """
        down = self.supervisor.down()
        if down:
            raise StorageUnavailable(f"background tasks restarting: {', '.join(sorted(down))}")

    async def check_migrations(self) -> None:
        """For readiness.

        Raises:
            StorageUnavailable: The database lacks migrations.
        """
        left = await pending_migrations(self.pool)
        if left:
            raise StorageUnavailable(f"{left} migration(s) are missing: run `memlane migrate`")


def build(
    settings: Settings,
    roles: frozenset[Role] = frozenset({"api", "gateway", "worker"}),
    *,
    embedder: Embedder | None = None,
    earlier_embedder: Embedder | None = None,
    clock: Clock | None = None,
    console: Console | None = None,
) -> Process:
    """Build every object of a process, inside the event loop that will serve it; nothing is connected yet.

    Args:
        settings: The configuration.
        roles: What the process does; all in one by default.
        embedder: In place of the one that the settings name.
        earlier_embedder: In place of the one before a change of models.
        clock: In place of the system's.
        console: Serve the console too: for loopback alone.

    Raises:
        Misconfigured: A value is one that `memlane.preflight` would not take, or the offline model's file is not ours.
    """
    limits = PoolLimits(max_size=settings.database_pool, behind_pooler=settings.behind_pooler)
    process = Process(settings, Pool(settings.database_url, limits), clock or SystemClock())
    process.checks |= {
        "database": process.ping,
        "migrations": process.check_migrations,
        "tasks": process.check_tasks,
    }
    entitlements, license_fault = _entitlements(process)
    tokens = StreamTickets(JoinTokens(parse_join_secrets(settings.join_secrets)))
    extra: list[BaseRoute] = []
    hub: Hub | None = None
    if "gateway" in roles:
        hub = _build_gateway(process, entitlements, tokens, extra)
    health = HealthHandlers(process.acceptance, process.ping, process.checks)
    if "api" in roles:
        services = _build_services(process, entitlements, tokens, hub, embedder, earlier_embedder)
        gate = Gate(services, limits=_limits(process))
        process.services = services
        memories = MemoryHandlers(services, gate)
        entitlement = EntitlementHandlers(gate, process.clock, license_fault)
        # Here and not above: the SDK takes half a second to import, which every other command would pay.
        from memlane.mcp_tools.endpoint import McpEndpoint  # noqa: PLC0415

        mcp = McpEndpoint(services, gate, hosts=settings.mcp_hosts, origins=sorted(settings.allowed_origins or ()))
        process.contexts.append(mcp.manager.run)
        extra.append(mcp.route())
        if console is not None:
            extra += console_routes(console, rest_routes(memories, entitlement, health))
        process.routes = rest_routes(memories, entitlement, health, extra)
    else:
        process.routes = health_routes(health, extra)
    if "worker" in roles:
        process.loops["sweep_answers"] = lambda: drop_old_answers(process.pool)
        process.loops["statistics"] = lambda: keep_statistics(process.pool)
        process.loops["rekey"] = lambda: rekey_for_ever(PostgresUpkeep(process.pool))
        process.loops["sweep_sessions"] = lambda: drop_old_sessions(process.pool, settings.session_hours)
    return process


def _limits(process: Process) -> RateLimits:
    settings = process.settings
    requests = None if settings.rate_per_user is None else Rate(settings.rate_per_user)
    lane_writes = None if settings.rate_lane_writes is None else Rate(settings.rate_lane_writes)
    if settings.redis_url is None:
        return RateLimits(LocalLimiter(), requests, lane_writes)
    limiter = RedisLimiter(settings.redis_url)
    process.closers.append(limiter.aclose)
    return RateLimits(limiter, requests, lane_writes)


def _entitlements(process: Process) -> tuple[EntitlementSource, EntitlementFault | None]:
    settings = process.settings
    if settings.deployment_mode == "managed":
        return ManagedEntitlements(process.pool, process.clock), None
    licensed = LicenseEntitlements(settings.license or "", parse_trusted_keys(settings.license_keys or ""))
    if licensed.ends_at is not None:
        metrics.LICENSE_ENDS.set(licensed.ends_at.timestamp())
    fault = licensed.fault_at(process.clock.now())
    if fault is not None:
        log.error("license_rejected", reason=fault.value)
    return licensed, None if licensed.rejected is None else LICENSE_REJECTED


def _build_gateway(
    process: Process, entitlements: EntitlementSource, tokens: StreamTickets, extra: list[BaseRoute]
) -> Hub:
    settings = process.settings
    streams = PostgresStreams(process.pool)
    subscription: RedisSubscription | None = None
    if settings.redis_url is None:
        # Alone, the process hears of every write itself.
        hub = Hub(streams)
    else:
        hub = Hub(streams, healthy=lambda: subscription is not None and subscription.healthy)
        subscription = RedisSubscription(settings.redis_url, hub.receive, hub.distrust)
        process.loops |= {"hints": subscription.run, "hint_probe": subscription.run_probe}
        process.checks["hints"] = subscription.check
        process.closers.append(subscription.aclose)
    sessions = Sessions(streams, entitlements, process.clock, session_hours=settings.session_hours)
    process.sessions = sessions
    process.loops |= {
        **{f"stream_worker_{number}": hub.run_worker for number in range(1, STREAM_WORKERS + 1)},
        "stream_sweep": hub.run_sweep,
        "stream_fences": hub.run_fences,
        "stream_sessions": sessions.run_checks,
        "stream_idle": sessions.run_idle_checks,
    }
    endpoint = StreamEndpoint(
        tokens, sessions, hub, closing=lambda: process.acceptance.closing, origins=settings.allowed_origins
    )
    extra.append(WebSocketRoute("/client/websocket", endpoint))
    return hub


def _build_services(
    process: Process,
    entitlements: EntitlementSource,
    tokens: StreamTickets,
    hub: Hub | None,
    embedder: Embedder | None,
    earlier_embedder: Embedder | None,
) -> Services:
    settings = process.settings
    hints: Hints = SilentHints() if hub is None else LocalHints(hub.receive, hub.has_feed)
    if settings.redis_url is not None:
        hints = publisher = RedisPublisher(settings.redis_url)
        process.loops["hint_publisher"] = publisher.run
        process.checks["redis"] = publisher.check
        process.closers.append(publisher.aclose)
    store = PostgresStore(process.pool, hints, max_live_rows=settings.max_live_memories)
    marks = BatchedRecallMarks(process.pool)
    process.loops["recall_marks"] = marks.run
    services = Services(
        store=store,
        keys=store,
        entitlements=entitlements,
        embedder=embedder or make_embedder(settings),
        recalls=marks,
        join_tokens=tokens,
        streams=PostgresStreams(process.pool),
        hints=hints,
        secrets=DetectSecrets(),
        clock=process.clock,
        judge=make_judge(settings),
        reranker=make_reranker(settings),
        earlier_embedder=earlier_embedder or make_earlier_embedder(settings),
    )
    optional = (services.judge, services.reranker, services.earlier_embedder)
    process.closers += [model.aclose for model in optional if model is not None]
    process.checks["embedder"] = services.embedder.probe
    process.closers = [marks.flush, services.embedder.aclose, *process.closers]
    return services


async def start_process(process: Process) -> None:
    """Start a process; the default of `application`."""
    await process.start()


def application(process: Process, start: Callable[[Process], Awaitable[None]] = start_process) -> Router:
    """The ASGI application of a process.

    Args:
        process: Built inside the event loop that will serve it.
        start: Starts it; a caller may look at what makes the start fail.
    """

    @asynccontextmanager
    async def lifespan(_app: Router) -> AsyncIterator[Mapping[str, object]]:
        async with AsyncExitStack() as stack:
            for context in process.contexts:
                await stack.enter_async_context(context())
            await start(process)
            try:
                yield {}
            finally:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.stop()

    return Router(routes=process.routes, lifespan=lifespan)
