"""A channel's limit of live rows: QUOTA_EXCEEDED."""

import asyncio
from typing import Any

from integration.cli.shell import memlane
from integration.mcp.house import mcp_client, refused
from integration.rest.house import Borrowed, Shop, error_of
from memlane.preflight import load_settings
from memlane.usecases.ports import Embedder
from support.service import running_service


async def limit(shop: Shop, most: int) -> None:
    await shop.rows("update projects set max_live_memories = $2 where id = $1", most)


async def test_a_full_channel_takes_no_new_row_but_absorbs_and_supersedes(shop: Shop) -> None:
    await shop.deployment.project(shop.slug)
    await limit(shop, 2)
    me = await shop.headers()
    first = await shop.save(me, "Likes tea.")
    await shop.save(me, "Likes rye.")
    refusal = await shop.post(me, {"content": "Likes walks.", "kind": "topical"})
    assert error_of(refusal) == (409, "QUOTA_EXCEEDED")
    assert "2 live memories" in refusal.json()["error"]["message"]
    assert (await shop.save(me, "likes tea"))["absorbed"] is True
    newer = await shop.supersede(me, first["id"], "Likes coffee.")
    assert newer.status_code == 200
    # Each channel has its own count.
    await shop.save(me, "We ship on Fridays.", scope="project")
    await shop.save(await shop.headers("u2"), "Likes tea.")

    assert (await shop.retire(me, newer.json()["id"])).status_code == 204
    await shop.save(me, "Likes walks.")
    assert error_of(await shop.restore(me, newer.json()["id"])) == (409, "QUOTA_EXCEEDED")
    async with mcp_client(shop.service.url, me) as client:
        assert await refused(client, "save_memory", content="Likes books.", kind="topical") == "QUOTA_EXCEEDED"
    outcomes = await shop.post(me, {"memories": [{"content": "Likes art.", "kind": "topical"}]}, "/api/memories/batch")
    assert outcomes.json()["outcomes"][0]["error"]["code"] == "QUOTA_EXCEEDED"
    assert len(await shop.listed(me)) == 3


async def test_writes_at_the_same_moment_do_not_pass_the_limit(shop: Shop) -> None:
    await shop.deployment.project(shop.slug)
    await limit(shop, 5)
    me = await shop.headers()
    answers = await asyncio.gather(
        *(shop.post(me, {"content": f"Shelf {number} is full.", "kind": "topical"}) for number in range(12))
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [409] * 7
    assert len(await shop.listed(me)) == 5


async def test_the_deployments_limit_holds_for_a_project_without_its_own(shop: Shop, embedder: Embedder) -> None:
    settings = load_settings(shop.deployment.environment(MEMLANE_MAX_LIVE_MEMORIES="2"))
    async with running_service(shop.deployment, settings, embedder=Borrowed(embedder)) as (service, _):  # type: ignore[arg-type]
        small = Shop(service)
        me = await small.headers()
        for number in range(2):
            await small.save(me, f"Shelf {number} is full.")
        refusal = await small.post(me, {"content": "Likes walks.", "kind": "topical"})
        assert error_of(refusal) == (409, "QUOTA_EXCEEDED")
        assert "2 live memories" in refusal.json()["error"]["message"]
        await limit(small, 3)
        # Another key: what a service knows of the first one may be 4 s old.
        me = await small.headers()
        await small.save(me, "Likes walks.")
        assert error_of(await small.post(me, {"content": "Likes rye.", "kind": "topical"})) == (409, "QUOTA_EXCEEDED")


async def test_an_operator_sets_the_limit_of_a_project(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.")
    env = {"DATABASE_URL": shop.deployment.dsn}
    assert (await memlane("projects", "set", shop.slug, "--max-memories", "1", env=env)).code == 0
    async with asyncio.timeout(5):
        number = 0
        while (await shop.post(me, {"content": f"Shelf {number} is full.", "kind": "topical"})).status_code != 409:
            number += 1
            await asyncio.sleep(0.1)
    assert (await memlane("projects", "set", shop.slug, "--max-memories", "default", env=env)).code == 0
    listed = await memlane("projects", "list", "--json", env=env)
    assert f'"{shop.slug}"' in listed.out
    for wrong in (("--max-memories", "0"), ("--max-memories", "many"), ()):
        assert (await memlane("projects", "set", shop.slug, *wrong, env=env)).code == 2
