"""The one place where objects are built and handed over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from memlane.auth.join_tokens import JoinTokens, parse_join_secrets
from memlane.auth.license_entitlements import LicenseEntitlements
from memlane.auth.licenses import parse_trusted_keys
from memlane.auth.stream_tickets import StreamTickets
from memlane.config import Settings
from memlane.domain.entitlement import LICENSE_REJECTED
from memlane.domain.errors import EmbedderUnavailable, Misconfigured, StorageUnavailable
from memlane.embedding.local import LocalEmbedder
from memlane.embedding.openai_compatible import OpenAICompatibleEmbedder
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.observability.supervisor import Supervisor
from memlane.rest.application import rest_routes
from memlane.rest.handlers import MemoryHandlers
from memlane.rest.health import Acceptance, HealthHandlers
from memlane.storage.managed_entitlements import ManagedEntitlements
from memlane.storage.migrate import pending_migrations
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.recall_marks import BatchedRecallMarks
from memlane.storage.store import PostgresStore
from memlane.storage.sweeps import drop_old_answers
from memlane.usecases.authenticate import Gate
from memlane.usecases.ports import Clock, Embedder, EntitlementSource, Services

STOP_SECONDS = 10.0
"""Longest shutdown of a process's own parts."""


class SystemClock:
    """Implements `usecases.ports.Clock`."""

    def now(self) -> datetime:
        """See `Clock.now`."""
        return datetime.now(UTC)


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name: `local://` is the offline model.

    Raises:
        Misconfigured: The offline model has other dimensions, or its file is not the pinned one.
    """
    if settings.embeddings_url.startswith("local:"):
        embedder = LocalEmbedder(on_call=metrics.observe_embedding)
        if embedder.space.dimensions != settings.embedding_dimensions:
            raise Misconfigured(
                f"MEMORY_EMBEDDING_DIMENSIONS is {settings.embedding_dimensions}, "
                f"but the offline model has {embedder.space.dimensions}"
            )
        return embedder
    return OpenAICompatibleEmbedder(
        settings.embeddings_url,
        settings.embedding_model,
        settings.embedding_dimensions,
        api_key=settings.embeddings_api_key,
        on_call=metrics.observe_embedding,
    )


@dataclass(frozen=True, slots=True)
class Process:
    """All objects of one server process."""

    services: Services
    pool: Pool
    marks: BatchedRecallMarks
    supervisor: Supervisor
    acceptance: Acceptance
    routes: Sequence[BaseRoute]

    async def start(self) -> None:
        """Probe the embedder, warm the pool, start the background tasks.

        Raises:
            Misconfigured: The embedder answers with another dimension than configured.
        """
        try:
            await self.services.embedder.probe()
        except EmbedderUnavailable:
            # It may still be loading its model: until it answers, saves are refused with 503.
            log.warning("embedder_not_ready")
        try:
            await self.services.store.ping()
        except StorageUnavailable:
            log.warning("database_not_ready")
        self.supervisor.start("recall_marks", self.marks.run)
        self.supervisor.start("sweep_answers", lambda: drop_old_answers(self.pool))
        self.acceptance.accepting = True
        log.info("accepting")

    async def stop(self) -> None:
        """Stop taking work, write what is queued, close everything."""
        self.acceptance.accepting = False
        await self.supervisor.aclose()
        await self.marks.flush()
        await self.services.embedder.aclose()
        await self.pool.aclose()
        log.info("stopped")


def build(settings: Settings, *, embedder: Embedder | None = None, clock: Clock | None = None) -> Process:
    """Build every object of a process; nothing is connected yet.

    Args:
        settings: The configuration.
        embedder: In place of the one that the settings name.
        clock: In place of the system's.

    Raises:
        Misconfigured: A setting that only the object can check is wrong.
    """
    clock = clock or SystemClock()
    pool = Pool(
        settings.database_url,
        PoolLimits(max_size=settings.database_pool, behind_pooler=settings.behind_pooler),
    )
    store = PostgresStore(pool)
    marks = BatchedRecallMarks(pool)
    entitlements: EntitlementSource
    license_fault = None
    if settings.deployment_mode == "managed":
        entitlements = ManagedEntitlements(pool, clock)
    else:
        entitlements = licensed = LicenseEntitlements(
            settings.license or "", parse_trusted_keys(settings.license_keys or "")
        )
        if licensed.rejected is not None:
            license_fault = LICENSE_REJECTED
            log.error("license_rejected", reason=licensed.rejected.reason.value)
    services = Services(
        store=store,
        keys=store,
        entitlements=entitlements,
        embedder=embedder or make_embedder(settings),
        recalls=marks,
        join_tokens=StreamTickets(JoinTokens(parse_join_secrets(settings.join_secrets))),
        clock=clock,
    )
    supervisor = Supervisor()
    acceptance = Acceptance()
    gate = Gate(services)

    async def check_tasks() -> None:
        down = supervisor.down()
        if down:
            raise StorageUnavailable(f"background tasks restarting: {', '.join(sorted(down))}")

    async def check_migrations() -> None:
        left = await pending_migrations(pool)
        if left:
            raise StorageUnavailable(f"{left} migration(s) are missing: run `memlane migrate`")

    health = HealthHandlers(
        services=services,
        gate=gate,
        acceptance=acceptance,
        checks={
            "database": store.ping,
            "migrations": check_migrations,
            "embedder": services.embedder.probe,
            "tasks": check_tasks,
        },
        license_fault=license_fault,
    )
    return Process(
        services=services,
        pool=pool,
        marks=marks,
        supervisor=supervisor,
        acceptance=acceptance,
        routes=rest_routes(MemoryHandlers(services, gate), health),
    )


async def start_process(process: Process) -> None:
    """Start a process; the default of `application`."""
    await process.start()


def application(process: Process, start: Callable[[Process], Awaitable[None]] = start_process) -> Starlette:
    """The ASGI application of a process.

    Args:
        process: Built inside the event loop that will serve it.
        start: Starts it; a caller may look at what makes the start fail.
    """

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await start(process)
        try:
            yield
        finally:
            async with asyncio.timeout(STOP_SECONDS):
                await process.stop()

    return Starlette(routes=process.routes, lifespan=lifespan)
