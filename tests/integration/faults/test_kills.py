"""Processes that die by SIGKILL in the middle of a write load: nothing acknowledged is missing."""

import asyncio
import itertools
import os
import signal

import httpx

from integration.faults.house import (
    Acknowledged,
    Tenant,
    assert_sound_history,
    eventually,
    migrated,
    running_process,
    save,
    statement,
)
from memlane.embedded.postgres import EmbeddedPostgres
from support.embedding_server import EmbeddingServer
from support.postgres import private_server
from support.service import Deployment

WRITERS = 6


async def test_a_killed_process_loses_nothing_acknowledged_and_the_other_goes_on(
    lone_deployment: Deployment, embeddings: EmbeddingServer
) -> None:
    tenant = await Tenant.new(lone_deployment)
    acknowledged, numbers, stop = Acknowledged(), itertools.count(), asyncio.Event()
    async with (
        running_process(lone_deployment, embeddings) as doomed,
        running_process(lone_deployment, embeddings) as other,
        asyncio.TaskGroup() as writers,
    ):
        for client in (doomed.client, other.client) * (WRITERS // 2):
            writers.create_task(acknowledged.write(client, tenant, numbers, stop))
        await _grow(acknowledged, 60)
        doomed.api.kill()
        await _grow(acknowledged, len(acknowledged.saved) + 60)
        stop.set()
        assert (await other.client.get("/api/ready")).status_code == 200
    assert acknowledged.refused > 0, "the dead process refused connections"
    await acknowledged.assert_nothing_is_missing(tenant)
    await assert_sound_history(tenant)


async def test_a_supersede_under_way_in_a_killed_process_is_whole_or_absent(
    lone_deployment: Deployment, embeddings: EmbeddingServer
) -> None:
    tenant = await Tenant.new(lone_deployment)
    answered: list[tuple[str, str]] = []

    async def keep_superseding(client: httpx.AsyncClient, user: str) -> None:
        me = tenant.headers(user)
        current = (await save(client, me, statement(0))).json()["id"]
        for number in itertools.count(1):
            body = {"content": statement(number), "kind": "topical"}
            try:
                answer = await client.patch(f"/api/memories/{current}", headers=me, json=body)
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            answered.append((current, current := answer.json()["id"]))

    async with running_process(lone_deployment, embeddings) as doomed, asyncio.TaskGroup() as writers:
        for number in range(WRITERS):
            writers.create_task(keep_superseding(doomed.client, f"u{number}"))
        await eventually(lambda: len(answered) > 40, "superseded")
        doomed.api.kill()
    rows = await tenant.rows("select id::text, superseded_by::text as next from memories where project_id = $1")
    follows = {row["id"]: row["next"] for row in rows}
    assert {old: follows.get(old) for old, _ in answered} == dict(answered)
    # Each user has one live row: no chain was torn between retiring and storing.
    assert len(await tenant.live()) == WRITERS
    await assert_sound_history(tenant)


async def test_a_killed_postgres_loses_nothing_acknowledged(embeddings: EmbeddingServer) -> None:
    async with private_server(durable=True) as server:
        deployment = await migrated(server)
        tenant = await Tenant.new(deployment)
        acknowledged, numbers, stop = Acknowledged(), itertools.count(), asyncio.Event()
        async with running_process(deployment, embeddings) as running, asyncio.TaskGroup() as writers:
            for _ in range(WRITERS):
                writers.create_task(acknowledged.write(running.client, tenant, numbers, stop))
            await _grow(acknowledged, 60)
            _kill_postgres(server)
            await server.died()
            assert (await running.client.get("/api/health")).status_code == 503
            await server.start()
            await _grow(acknowledged, len(acknowledged.saved) + 60)
            stop.set()
            assert running.api.process.poll() is None, "it recovered without a restart"
        assert acknowledged.refused > 0
        await acknowledged.assert_nothing_is_missing(tenant)
        await assert_sound_history(tenant)


async def test_a_process_told_to_stop_answers_what_is_under_way(
    lone_deployment: Deployment, embeddings: EmbeddingServer
) -> None:
    tenant = await Tenant.new(lone_deployment)
    async with running_process(lone_deployment, embeddings) as running:
        await running.client.get("/api/health")
        asked = [
            asyncio.ensure_future(save(running.client, tenant.headers(), statement(number))) for number in range(20)
        ]
        await eventually(lambda: any(one.done() for one in asked), "a first answer")
        assert await asyncio.to_thread(running.api.terminate) == 0
        answers = await asyncio.gather(*asked, return_exceptions=True)
    got = [answer for answer in answers if isinstance(answer, httpx.Response)]
    assert {answer.status_code for answer in got} == {201}
    # Only a connection that had brought no request yet may have been closed.
    assert len(await tenant.live()) == len(got)


def _kill_postgres(server: EmbeddedPostgres) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)


async def _grow(acknowledged: Acknowledged, size: int) -> None:
    await eventually(lambda: len(acknowledged.saved) >= size, f"{size} acknowledged writes", 30)
