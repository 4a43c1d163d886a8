"""What a caller sees while Postgres is broken in every way that we know, and that it heals by itself."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import asyncpg
import httpx
import pytest_asyncio

from integration.faults.house import (
    PATIENCE,
    Running,
    Tenant,
    Timed,
    assert_sound_history,
    assert_unavailable,
    drafts,
    eventually,
    frozen,
    running_process,
    save,
    save_batch,
    session,
    statement,
    status_is,
    timed,
)
from memlane.auth.runtime_keys import mint_runtime_key
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.usecases.authenticate import CACHE_SECONDS
from support.embedding_server import EmbeddingServer
from support.postgres import fresh_database
from support.service import Deployment

OUTAGE = ("STORAGE_UNAVAILABLE", "ENTITLEMENT_UNRESOLVED")


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(server: EmbeddedPostgres, deployment: Deployment, running: Running) -> AsyncIterator[Tenant]:
    new = await Tenant.new(deployment)
    yield new
    await server.start()
    await status_is(running.client, "/api/health", 200)
    await assert_sound_history(new)


async def _calls(client: httpx.AsyncClient, tenant: Tenant, memory_id: str) -> list[Timed]:
    """Every kind of call that needs the database, all at once."""
    me = tenant.headers()
    path = f"/api/memories/{memory_id}"
    asked: list[Awaitable[httpx.Response]] = [
        save(client, me, statement(2)),
        client.get("/api/memories", headers=me),
        client.get(path, headers=me),
        client.patch(path, headers=me, json={"content": statement(3), "kind": "topical"}),
        client.delete(path, headers=me),
        client.post(f"{path}/restore", headers=me),
        client.get(f"{path}/provenance", headers=me),
        client.post("/api/memories/recall", headers=me, json={"query": "lockers"}),
        client.post("/api/memories/subscribe", headers=me, json={}),
        client.delete("/api/memories/subscribe", headers=me),
        save_batch(client, me, drafts(range(100, 103))),
        save_batch(client, me, drafts(range(200, 300))),
        save_batch(client, me, drafts(range(300, 302)) + drafts(range(302, 304), scope="project")),
    ]
    return list(await asyncio.gather(*(timed(one) for one in asked)))


async def _union(running: Running, key: str) -> dict[str, Any]:
    """What the published runtime hears of its entitlement: a 200, or it would read nothing, and in its time."""
    got = await timed(running.client.get("/api/entitlements/runtime", headers={"Authorization": f"Bearer {key}"}))
    assert got.answer.status_code == 200, got.answer.text
    assert got.seconds < 1.5, "the published runtime waits no longer"
    found: dict[str, Any] = got.answer.json()
    return found


async def _assert_entitlement_unresolved(running: Running, key: str) -> None:
    """Neither the key nor what it entitles to can be looked up: never a stale yes, and no 401 for a good key."""
    found = await _union(running, key)
    assert found.keys() == {"status", "error"}, found
    assert found["status"] == "unavailable"
    assert found["error"].keys() == {"code", "message", "retryable", "requestId"}
    assert (found["error"]["code"], found["error"]["retryable"]) == ("ENTITLEMENT_UNRESOLVED", True)


async def _assert_outage(running: Running, tenant: Tenant, memory_id: str, *, cached: bool = True) -> None:
    """Every call is refused in time. Not ``cached``: the process has no young answer about the tenant's own key."""
    for got in await _calls(running.client, tenant, memory_id):
        assert_unavailable(got, *OUTAGE)
    for path, status in (
        ("/api/health", 503),
        ("/api/ready", 503),
        ("/api/live", 200),
        ("/api/accepting", 200),
        ("/api/openapi.json", 200),
    ):
        got = await timed(running.client.get(path))
        assert (path, got.answer.status_code) == (path, status)
        assert got.seconds < PATIENCE
    # A key that the process has never seen cannot be in its cache.
    await _assert_entitlement_unresolved(running, mint_runtime_key(tenant.slug).reveal())
    if not cached:
        await _assert_entitlement_unresolved(running, tenant.key)


async def _assert_healed(running: Running, tenant: Tenant, memory_id: str) -> None:
    await status_is(running.client, "/api/ready", 200)
    me = tenant.headers()
    assert (await running.client.get(f"/api/memories/{memory_id}", headers=me)).status_code == 200
    assert (await save(running.client, me, statement(4))).status_code == 201
    recalled = await running.client.post("/api/memories/recall", headers=me, json={"query": statement(1)})
    assert recalled.json()["memories"][0]["id"] == memory_id


async def _saved(running: Running, tenant: Tenant) -> str:
    memory_id: str = (await save(running.client, tenant.headers(), statement(1))).json()["id"]
    return memory_id


async def test_a_process_started_while_postgres_is_down_answers_503_and_recovers_when_it_comes_up(
    server: EmbeddedPostgres, deployment: Deployment, embeddings: EmbeddingServer, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    await server.stop()
    async with running_process(deployment, embeddings) as late:
        await _assert_outage(late, tenant, memory_id, cached=False)
        await server.start()
        await _assert_healed(late, tenant, memory_id)


async def test_a_postgres_that_is_stopped_and_started_is_an_outage_that_heals(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    await server.stop()
    await _assert_outage(running, tenant, memory_id)
    # Past the life of every cached key and entitlement the answer is still 503, and never a stale yes.
    await asyncio.sleep(CACHE_SECONDS + 0.1)
    await _assert_outage(running, tenant, memory_id, cached=False)
    await server.start()
    await _assert_healed(running, tenant, memory_id)


async def test_an_entitlement_that_was_looked_up_just_before_an_outage_holds_for_4_s_and_no_longer(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    # What is cached is not renewed by its use, so it is let grow old and looked up anew.
    await asyncio.sleep(CACHE_SECONDS + 0.1)
    assert (await _union(running, tenant.key))["status"] == "ready"
    looked_up = time.monotonic()
    with frozen(server):
        found = await _union(running, tenant.key)
        assert (found["status"], found["entitlement"]["active"]) == ("ready", True)
        await asyncio.sleep(looked_up + CACHE_SECONDS + 0.1 - time.monotonic())
        await _assert_entitlement_unresolved(running, tenant.key)
    await _assert_healed(running, tenant, memory_id)
    assert (await _union(running, tenant.key))["status"] == "ready"


async def test_a_restart_between_two_requests_is_seen_by_no_caller(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    # Every pooled connection is dead afterwards, and the pool does not know.
    await asyncio.gather(
        *(running.client.get("/api/memories", headers=tenant.headers()) for _ in range(8)),
    )
    await server.stop()
    await server.start()
    answers = await asyncio.gather(
        *(running.client.get("/api/memories", headers=tenant.headers()) for _ in range(4)),
        *(save(running.client, tenant.headers(), statement(10 + number)) for number in range(4)),
    )
    assert [answer.status_code for answer in answers] == [200] * 4 + [201] * 4
    await _assert_healed(running, tenant, memory_id)


async def test_a_killed_postgres_is_an_outage_that_heals(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await server.died()
    await _assert_outage(running, tenant, memory_id)
    await server.start()
    await _assert_healed(running, tenant, memory_id)


async def test_a_postgres_that_hangs_is_answered_for_in_time(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    with frozen(server):
        await _assert_outage(running, tenant, memory_id)
    await _assert_healed(running, tenant, memory_id)


async def test_a_postgres_without_a_free_connection_is_an_outage_that_heals(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    async with _all_connections(server):
        await _assert_outage(running, tenant, memory_id)
    await _assert_healed(running, tenant, memory_id)


async def test_a_pool_smaller_than_the_load_makes_callers_wait_and_refuses_none(
    deployment: Deployment, embeddings: EmbeddingServer, tenant: Tenant
) -> None:
    async with running_process(deployment, embeddings, MEMLANE_DATABASE_POOL="1") as small:
        asked = [timed(save(small.client, tenant.headers(f"u{n % 5}"), statement(n))) for n in range(30)]
        got = await asyncio.gather(*asked)
    assert {one.answer.status_code for one in got} == {201}
    assert max(one.seconds for one in got) < PATIENCE


async def test_a_channel_locked_by_another_session_refuses_its_writes_in_time_and_nothing_else(
    deployment: Deployment, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    me, client = tenant.headers(), running.client
    async with session(deployment) as other, other.transaction():
        await other.execute(
            "select 1 from channels c join projects p on p.id = c.project_id"
            " where p.slug = $1 and c.user_id = 'u1' for update of c",
            tenant.slug,
        )
        draft = {"content": statement(5), "kind": "topical"}
        refused = await asyncio.gather(
            timed(save(client, me, statement(5))),
            timed(client.patch(f"/api/memories/{memory_id}", headers=me, json=draft)),
            timed(client.delete(f"/api/memories/{memory_id}", headers=me)),
            timed(save_batch(client, me, drafts(range(100, 103)))),
            timed(save_batch(client, me, drafts(range(200, 300)))),
        )
        for got in refused:
            assert_unavailable(got, "STORAGE_UNAVAILABLE")
        assert (await client.get("/api/memories", headers=me)).status_code == 200
        recalled = await client.post("/api/memories/recall", headers=me, json={"query": "lockers", "strict": True})
        assert recalled.status_code == 200
        assert (await save(client, tenant.headers("u2"), statement(5))).status_code == 201
        assert (await save(client, me, statement(5), scope="project")).status_code == 201
        assert (await client.get("/api/ready")).status_code == 200
    assert await tenant.live() == [statement(1), statement(5), statement(5)]
    await _assert_healed(running, tenant, memory_id)


async def test_a_flood_of_writes_to_a_locked_channel_does_not_starve_other_users(
    deployment: Deployment, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    async with session(deployment) as other, other.transaction():
        await other.execute("select 1 from channels where user_id = 'u1' for update")
        flood = [
            asyncio.ensure_future(timed(save(running.client, tenant.headers(), statement(n)))) for n in range(6, 26)
        ]
        await asyncio.sleep(0.3)
        neighbours = [timed(running.client.get("/api/memories", headers=tenant.headers("u2"))) for _ in range(5)]
        for got in await asyncio.gather(*neighbours):
            assert got.seconds < PATIENCE
        for got in await asyncio.gather(*flood):
            assert_unavailable(got, "STORAGE_UNAVAILABLE")
    await _assert_healed(running, tenant, memory_id)


async def test_a_locked_table_is_answered_for_in_time(deployment: Deployment, tenant: Tenant, running: Running) -> None:
    memory_id = await _saved(running, tenant)
    async with session(deployment) as other, other.transaction():
        await other.execute("lock table memories in access exclusive mode")
        me = tenant.headers()
        for got in await asyncio.gather(
            timed(running.client.post("/api/memories/recall", headers=me, json={"query": "lockers"})),
            timed(running.client.get("/api/memories", headers=me)),
            timed(save(running.client, me, statement(5))),
        ):
            assert_unavailable(got, "STORAGE_UNAVAILABLE")
    await _assert_healed(running, tenant, memory_id)


async def test_a_database_that_turned_read_only_refuses_writes_and_serves_reads(
    deployment: Deployment, tenant: Tenant, running: Running
) -> None:
    memory_id = await _saved(running, tenant)
    name = deployment.dsn.partition("@/")[2].partition("?")[0]
    await _cut_sessions(deployment, f'alter database "{name}" set default_transaction_read_only = on')
    try:
        me = tenant.headers()
        assert_unavailable(await timed(save(running.client, me, statement(5))), "STORAGE_UNAVAILABLE")
        assert (await running.client.get(f"/api/memories/{memory_id}", headers=me)).status_code == 200
        recalled = await running.client.post("/api/memories/recall", headers=me, json={"query": "lockers"})
        assert recalled.status_code == 200
    finally:
        await _cut_sessions(deployment, f'alter database "{name}" reset default_transaction_read_only')
    await _assert_healed(running, tenant, memory_id)


async def test_a_database_that_was_never_migrated_is_not_ready_and_says_what_to_do(
    server: EmbeddedPostgres, embeddings: EmbeddingServer, tenant: Tenant
) -> None:
    empty = Deployment(await fresh_database(server))
    async with running_process(empty, embeddings) as early:
        answer = await early.client.get("/api/ready")
        assert answer.status_code == 503
        assert "memlane migrate" in answer.json()["checks"]["migrations"]
        assert_unavailable(await timed(save(early.client, tenant.headers(), statement(1))), *OUTAGE)


async def test_no_answer_during_an_outage_holds_sql_a_text_or_where_the_database_is(
    server: EmbeddedPostgres, tenant: Tenant, running: Running
) -> None:
    await server.stop()
    answers = await asyncio.gather(
        save(running.client, tenant.headers(), "The tide table hangs in the blue kitchen."),
        running.client.get("/api/health"),
        running.client.get("/api/ready"),
    )
    told = "".join(answer.text for answer in answers) + running.api.log
    for secret in ("tide", str(server.data_dir), "select", "Traceback", tenant.key.rpartition("_")[2]):
        assert secret not in told


async def _cut_sessions(deployment: Deployment, statement_: str) -> None:
    connection = await asyncpg.connect(deployment.dsn, timeout=5)
    try:
        await connection.execute("set default_transaction_read_only = off")
        await connection.execute(statement_)
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


@asynccontextmanager
async def _all_connections(server: EmbeddedPostgres) -> AsyncIterator[None]:
    """Hold every connection that the server has, and cut those of everyone else."""
    async with AsyncExitStack() as held:
        first = await asyncpg.connect(server.dsn("postgres"), timeout=5)
        held.push_async_callback(first.close)
        others = True
        while others:
            others = await first.fetchval(
                "select count(pg_terminate_backend(pid)) > 0 from pg_stat_activity where datname <> current_database()"
            )
            with suppress(asyncpg.TooManyConnectionsError):
                while True:
                    connection = await asyncpg.connect(server.dsn("postgres"), timeout=5)
                    held.push_async_callback(connection.close)
        yield


async def test_a_process_in_a_storm_of_cut_connections_loses_nothing_acknowledged(
    deployment: Deployment, tenant: Tenant, running: Running
) -> None:
    saved: list[str] = []

    async def write(first: int) -> None:
        for number in range(first, first + 15):
            answer = await save(running.client, tenant.headers(), statement(number))
            assert answer.status_code in {201, 503}, answer.text
            if answer.status_code == 201:
                saved.append(statement(number))

    writers = [asyncio.ensure_future(write(first)) for first in range(100, 600, 100)]
    async with session(deployment) as other:
        while not all(writer.done() for writer in writers):
            await other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                " and pid <> pg_backend_pid() order by random() limit 2"
            )
            await asyncio.sleep(0.05)
    await asyncio.gather(*writers)
    assert saved
    assert set(saved) <= set(await tenant.live())
    await eventually(lambda: all(writer.done() for writer in writers), "the writers end")
