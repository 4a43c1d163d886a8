"""A roll-back: this version's code on the next version's schema, which only adds (docs/operations.md, Upgrades)."""

import asyncio

import httpx

from support.redis import redis_server
from support.service import Deployment, api_process, headers_of
from support.stream_client import opened

TABLES = (
    "organizations", "projects", "lanes", "runtime_keys", "embedding_spaces", "channels", "memories",
    "memory_revisions", "memory_recalls", "write_ledger", "idempotency_keys", "stream_logouts", "stream_sessions",
)  # fmt: skip


async def expand(deployment: Deployment) -> None:
    """What a migration of the next version may do: columns with defaults, tables, indexes."""
    for table in TABLES:
        await deployment.execute(f"alter table {table} add column of_the_next_version text not null default ''")
    await deployment.execute("create table of_the_next_version (id int primary key)")
    await deployment.execute("create index next_version on memories (project_id, of_the_next_version)")
    await deployment.execute(
        "insert into schema_migrations select max(number) + 1, '9999_next.sql', repeat('0', 64) from schema_migrations"
    )


async def test_the_code_of_this_version_works_on_the_schema_of_the_next(deployment: Deployment) -> None:
    async with redis_server() as redis:
        environment = deployment.environment(REDIS_URL=redis.url, MEMLANE_DRAIN_SECONDS="0")
        me = headers_of(await deployment.key(), "ada")
        async with (
            api_process(environment) as api,
            api_process(environment, role="gateway") as gateway,
            httpx.AsyncClient(base_url=api.url, timeout=20) as client,
        ):
            await expand(deployment)
            tickets = (await client.post("/api/memories/subscribe", headers=me, json={})).json()
            async with opened(gateway.url, tickets["joinToken"]) as page:
                await page.joined(f"user_meta:memories:{tickets['joinCode']}")
                draft = {"content": "The kettle is blue.", "kind": "topical"}
                saved = await client.post("/api/memories", headers=me, json=draft)
                assert saved.status_code == 201, saved.text
                event = (await page.has(1))[0]
                assert event["memoryId"] == saved.json()["id"]
            recalled = await client.post("/api/memories/recall", headers=me, json={"query": "colour of the kettle"})
            assert recalled.json()["memories"][0]["id"] == saved.json()["id"]
            assert (await client.get("/api/accepting")).status_code == 200
            ready = await client.get("/api/ready")
            assert "does not know" in ready.json()["checks"]["migrations"]
        # A process of this version starts there, too: `helm rollback` makes new pods.
        async with api_process(environment) as api, httpx.AsyncClient(base_url=api.url, timeout=20) as client:
            listed = await client.get("/api/memories", headers=me)
            assert [one["content"] for one in listed.json()["memories"]] == ["The kettle is blue."]
            assert await asyncio.to_thread(api.terminate) == 0
