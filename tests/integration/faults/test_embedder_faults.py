"""What a caller sees while the embedder is broken in every way that we know, and that it heals by itself."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from integration.faults.house import (
    PATIENCE,
    Tenant,
    assert_sound_history,
    assert_unavailable,
    drafts,
    embedder_variables,
    eventually,
    running_process,
    save,
    save_batch,
    statement,
    status_is,
    timed,
    told,
)
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import migrate
from support.embedding_server import EmbeddingServer, Fault, Kind
from support.postgres import drop_database, fresh_database, template_database
from support.service import Deployment, Service, api_process, running_service

FAULTS = {
    "tei": (
        Fault.SLOW,
        Fault.DOWN,
        Fault.STATUS_429,
        Fault.STATUS_500,
        Fault.WRONG_DIMENSION,
        Fault.NAN,
        Fault.RUBBISH,
        Fault.REDIRECT,
        Fault.HUGE,
    ),
    "openai": (Fault.SLOW, Fault.DOWN, Fault.STATUS_429, Fault.WRONG_DIMENSION, Fault.NAN, Fault.HUGE),
}
"""The contract tests of the embedders go through every fault of both kinds; here it is what a caller sees."""


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=["tei", "openai"])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddingServer]:
    """An embedding service of each kind, to be broken."""
    kind: Kind = request.param
    async with EmbeddingServer(kind) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(lone_postgres: EmbeddedPostgres, provider: EmbeddingServer) -> AsyncIterator[Service]:
    """An API on that embedding service."""
    dsn = await fresh_database(lone_postgres, await template_database(lone_postgres, "migrated", _migrate))
    deployment = Deployment(dsn)
    settings = deployment.settings(
        embeddings_url=provider.url, embedding_model=provider.model, embedding_dimensions=provider.dimensions
    )
    async with running_service(deployment, settings) as (service, _):
        yield service
    await drop_database(lone_postgres, dsn)


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(served: Service, provider: EmbeddingServer) -> AsyncIterator[Tenant]:
    yield await Tenant.new(served.deployment)
    provider.fault = Fault.NONE
    await _heals(served.client, await Tenant.new(served.deployment))


async def _heals(client: httpx.AsyncClient, tenant: Tenant) -> None:
    async def saves() -> bool:
        return (await save(client, tenant.headers(), statement(9999))).status_code == 201

    await eventually(saves, "saves work again")


def _recall(client: httpx.AsyncClient, tenant: Tenant, **more: object) -> "asyncio.Future[httpx.Response]":
    body = {"query": "where does visitor 1 keep things", **more}
    return asyncio.ensure_future(client.post("/api/memories/recall", headers=tenant.headers(), json=body))


@pytest.mark.parametrize(
    ("provider", "fault"),
    [(kind, fault) for kind, faults in FAULTS.items() for fault in faults],
    indirect=["provider"],
    ids=lambda one: one if isinstance(one, str) else one.value,
)
async def test_a_broken_embedder_refuses_saves_and_degrades_recalls_and_heals_without_a_restart(
    served: Service, provider: EmbeddingServer, tenant: Tenant, fault: Fault
) -> None:
    client, me = served.client, tenant.headers()
    kept = (await save(client, me, statement(1))).json()
    provider.fault = fault
    draft = {"content": statement(2), "kind": "topical"}
    saved, replaced, batched, batched_100, recalled, strict = await asyncio.gather(
        timed(save(client, me, statement(2))),
        timed(client.patch(f"/api/memories/{kept['id']}", headers=me, json=draft)),
        timed(save_batch(client, me, drafts(range(2, 5)))),
        timed(save_batch(client, me, drafts(range(100, 200)))),
        timed(_recall(client, tenant)),
        timed(_recall(client, tenant, strict=True)),
    )
    for refused in (saved, replaced, batched, batched_100, strict):
        assert_unavailable(refused, "EMBEDDER_UNAVAILABLE")
    assert recalled.answer.status_code == 200, recalled.answer.text
    assert recalled.seconds < PATIENCE
    body = recalled.answer.json()
    assert body["degraded"] == ["embedder"]
    assert [one["id"] for one in body["memories"]] == [kept["id"]], "found by its words"
    assert 0 < body["memories"][0]["score"] <= 1
    assert await tenant.live() == [statement(1)], "nothing was half written"
    await assert_sound_history(tenant)

    ready = (await client.get("/api/ready")).json()
    assert ready["checks"]["embedder"] != "ok"
    assert (await client.get("/api/health")).status_code == 200
    assert (await client.get("/api/accepting")).status_code == 200
    assert (await client.get("/api/memories", headers=me)).status_code == 200
    assert (await client.delete(f"/api/memories/{kept['id']}", headers=me)).status_code == 204
    assert (await client.post(f"/api/memories/{kept['id']}/restore", headers=me)).status_code == 200

    provider.fault = Fault.NONE
    await _heals(client, tenant)
    again = (await _recall(client, tenant, strict=True)).json()
    assert "degraded" not in again
    await status_is(client, "/api/ready", 200)


async def test_a_provider_that_says_when_to_come_again_is_believed(
    served: Service, provider: EmbeddingServer, tenant: Tenant
) -> None:
    provider.retry_after = "17"
    provider.fault = Fault.STATUS_429
    refused = await timed(save(served.client, tenant.headers(), statement(3)))
    provider.retry_after = None
    assert_unavailable(refused, "EMBEDDER_UNAVAILABLE")
    assert refused.answer.headers["retry-after"] == "17"


@pytest.mark.parametrize("fault", [Fault.STATUS_429, Fault.STATUS_500], ids=lambda fault: fault.value)
async def test_a_short_failure_is_retried_and_no_caller_sees_it(
    served: Service, provider: EmbeddingServer, tenant: Tenant, fault: Fault
) -> None:
    provider.inject(fault, times=2)
    saved = await timed(save(served.client, tenant.headers(), statement(4)))
    assert saved.answer.status_code == 201
    assert saved.seconds < PATIENCE


async def test_many_callers_of_a_slow_embedder_are_all_answered_in_time(
    served: Service, provider: EmbeddingServer, tenant: Tenant
) -> None:
    provider.fault = Fault.SLOW
    asked = [timed(save(served.client, tenant.headers(), statement(number))) for number in range(60)]
    for refused in await asyncio.gather(*asked):
        assert_unavailable(refused, "EMBEDDER_UNAVAILABLE")
    assert await tenant.live() == []


async def test_a_batch_whose_embedder_breaks_on_the_way_tells_what_was_saved_before(
    served: Service, provider: EmbeddingServer, tenant: Tenant
) -> None:
    assert (await save(served.client, tenant.headers(), statement(1))).status_code == 201
    began = len(provider.calls)
    asked = asyncio.ensure_future(save_batch(served.client, tenant.headers(), drafts(range(100, 200))))
    await eventually(lambda: len(provider.calls) > began, "the first are embedded", pause=0.001)
    provider.fault = Fault.SLOW
    got = await timed(asked)
    assert got.seconds < PATIENCE
    saved, codes = told(got)
    assert saved == [statement(number) for number in range(100, 100 + len(saved))]
    assert len(saved) >= 16
    assert codes == ["EMBEDDER_UNAVAILABLE"] * (100 - len(saved))
    assert await tenant.live() == sorted([statement(1), *saved])


async def test_an_idempotency_key_of_a_refused_save_is_still_free(
    served: Service, provider: EmbeddingServer, tenant: Tenant
) -> None:
    me = tenant.headers() | {"Idempotency-Key": "again"}
    provider.fault = Fault.STATUS_500
    assert_unavailable(await timed(save(served.client, me, statement(5))), "EMBEDDER_UNAVAILABLE")
    provider.fault = Fault.NONE
    await _heals(served.client, await Tenant.new(served.deployment))
    assert (await save(served.client, me, statement(5))).status_code == 201


async def test_no_answer_about_a_broken_embedder_quotes_a_text_or_the_provider(
    served: Service, provider: EmbeddingServer, tenant: Tenant
) -> None:
    provider.fault = Fault.RUBBISH
    refused = await save(served.client, tenant.headers(), "The tide table hangs in the blue kitchen.")
    assert refused.status_code == 503
    assert "tide" not in refused.text
    assert "<html>" not in refused.text


class TestAtTheStart:
    async def test_an_embedder_of_another_dimension_ends_the_start_with_exit_code_78(
        self, lone_deployment: Deployment
    ) -> None:
        async with EmbeddingServer("tei") as provider:
            variables = embedder_variables(provider) | {"MEMORY_EMBEDDING_DIMENSIONS": "768"}
            async with api_process(lone_deployment.environment(**variables), wait=False) as api:
                assert await asyncio.to_thread(api.process.wait, 20) == 78
                assert "384" in api.log
                assert "768" in api.log
                assert "Traceback" not in api.log

    async def test_an_offline_model_of_another_dimension_ends_the_start_with_exit_code_78(
        self, lone_deployment: Deployment
    ) -> None:
        environment = lone_deployment.environment(MEMORY_EMBEDDING_DIMENSIONS="768")
        async with api_process(environment, wait=False) as api:
            assert await asyncio.to_thread(api.process.wait, 20) == 78
            assert "MEMORY_EMBEDDING_DIMENSIONS" in api.log
            assert "Traceback" not in api.log

    async def test_an_embedder_that_serves_another_model_ends_the_start_with_exit_code_78(
        self, lone_deployment: Deployment
    ) -> None:
        async with EmbeddingServer("tei") as provider:
            variables = embedder_variables(provider) | {"MEMORY_EMBEDDING_MODEL": "intfloat/e5-small-v2"}
            async with api_process(lone_deployment.environment(**variables), wait=False) as api:
                assert await asyncio.to_thread(api.process.wait, 20) == 78
                assert "intfloat/e5-small-v2" in api.log

    @pytest.mark.parametrize("fault", [Fault.DOWN, Fault.RUBBISH], ids=lambda fault: fault.value)
    async def test_an_embedder_that_does_not_answer_yet_does_not_end_the_start(
        self, lone_deployment: Deployment, fault: Fault
    ) -> None:
        tenant = await Tenant.new(lone_deployment)
        async with EmbeddingServer("tei") as provider:
            provider.fault = fault
            async with running_process(lone_deployment, provider) as running:
                refused = await timed(save(running.client, tenant.headers(), statement(6)))
                assert_unavailable(refused, "EMBEDDER_UNAVAILABLE")
                assert (await running.client.get("/api/ready")).status_code == 503
                provider.fault = Fault.NONE
                await _heals(running.client, tenant)
                await status_is(running.client, "/api/ready", 200)
