"""The service behind a real PgBouncer in transaction mode, set up as docs/install.md says."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from integration.faults.house import (
    PATIENCE,
    Running,
    Tenant,
    assert_sound_history,
    assert_unavailable,
    running_process,
    save,
    statement,
    status_is,
    timed,
)
from memlane.embedded.postgres import EmbeddedPostgres
from support.embedding_server import EmbeddingServer
from support.pgbouncer import POOL_SIZE, PgBouncer, pgbouncer
from support.service import Deployment

ROOT = Path(__file__).parents[3]
LIMITS = dict(
    re.findall(r"^alter role memlane set (\w+) = '?(\w+)'?;$", (ROOT / "docs/install.md").read_text(), re.MULTILINE)
)
"""The time limits that an operator is told to put on the role."""


@pytest_asyncio.fixture(loop_scope="session")
async def pooler(lone_postgres: EmbeddedPostgres) -> AsyncIterator[PgBouncer]:
    async with pgbouncer(lone_postgres) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def running(
    lone_deployment: Deployment, embeddings: EmbeddingServer, pooler: PgBouncer
) -> AsyncIterator[Running]:
    """One process that reaches the database through the pooler alone."""
    for name, value in LIMITS.items():
        await lone_deployment.execute(f"alter role memlane in database {_name(lone_deployment)} set {name} = '{value}'")
    behind = replace(lone_deployment, dsn=pooler.dsn(lone_deployment.dsn))
    changes = {"MEMLANE_DATABASE_POOLER": "transaction", "MEMLANE_DATABASE_POOL": "16"}
    async with running_process(behind, embeddings, **changes) as process:
        yield process
        assert process.api.process.poll() is None, "no fault ended the process"


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(lone_deployment: Deployment) -> Tenant:
    return await Tenant.new(lone_deployment)


async def test_memories_are_saved_recalled_and_listed_through_fewer_sessions_than_the_service_has_connections(
    running: Running, tenant: Tenant, lone_deployment: Deployment
) -> None:
    client = running.client
    users = [tenant.headers(f"u{number % 5}") for number in range(40)]
    saved = await asyncio.gather(*(save(client, me, statement(number)) for number, me in enumerate(users)))
    assert {answer.status_code for answer in saved} == {201}
    for number, me in enumerate(users[:5]):
        recalled = await client.post("/api/memories/recall", headers=me, json={"query": statement(number)})
        assert recalled.json()["memories"][0]["content"] == statement(number)
        listed = (await client.get("/api/memories", headers=me)).json()["memories"]
        assert {one["content"] for one in listed} == {statement(other) for other in range(number, 40, 5)}
    assert (await client.get("/api/ready")).status_code == 200
    sessions = await lone_deployment.fetch(
        "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert 1 <= len(sessions) <= POOL_SIZE
    await assert_sound_history(tenant)


async def test_ten_identical_saves_at_once_make_one_live_row(running: Running, tenant: Tenant) -> None:
    me = tenant.headers()
    answers = await asyncio.gather(*(save(running.client, me, statement(1)) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {201}
    assert Counter(answer.json()["absorbed"] for answer in answers) == {False: 1, True: 9}
    assert await tenant.live() == [statement(1)]
    await assert_sound_history(tenant)


async def test_a_pooler_that_dies_is_an_outage_that_heals_without_a_restart_of_the_service(
    running: Running, tenant: Tenant, pooler: PgBouncer
) -> None:
    client, me = running.client, tenant.headers()
    assert (await save(client, me, statement(1))).status_code == 201
    await pooler.kill()
    assert_unavailable(await timed(save(client, me, statement(2))), "STORAGE_UNAVAILABLE", "ENTITLEMENT_UNRESOLVED")
    got = await timed(client.get("/api/ready"))
    assert (got.answer.status_code, got.seconds < PATIENCE) == (503, True)
    await pooler.start()
    await status_is(client, "/api/ready", 200)
    assert (await save(client, me, statement(3))).status_code == 201
    assert await tenant.live() == [statement(1), statement(3)]


async def test_a_pooler_that_is_restarted_between_two_requests_is_seen_by_no_caller(
    running: Running, tenant: Tenant, pooler: PgBouncer
) -> None:
    client, me = running.client, tenant.headers()
    # Every pooled connection is dead afterwards, and the service does not know.
    await asyncio.gather(*(save(client, me, statement(number)) for number in range(8)))
    await pooler.kill()
    await pooler.start()
    answers = await asyncio.gather(
        *(client.get("/api/memories", headers=me) for _ in range(4)),
        *(save(client, me, statement(number)) for number in range(8, 12)),
    )
    assert [answer.status_code for answer in answers] == [200] * 4 + [201] * 4
    assert len(await tenant.live()) == 12
    await assert_sound_history(tenant)


@pytest.mark.usefixtures("running")
async def test_the_limits_of_the_role_hold_through_the_pooler(lone_deployment: Deployment, pooler: PgBouncer) -> None:
    behind = replace(lone_deployment, dsn=pooler.dsn(lone_deployment.dsn))
    assert {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} <= LIMITS.keys()
    for name, value in LIMITS.items():
        assert [row[0] for row in await behind.fetch(f"select current_setting('{name}')")] == [value]


def _name(deployment: Deployment) -> str:
    return deployment.dsn.partition("@/")[2].partition("?")[0]
