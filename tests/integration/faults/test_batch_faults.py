"""What a caller of a batch sees while a dependency is broken: in time, and told what was saved all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from integration.faults.house import (
    PATIENCE,
    Running,
    Tenant,
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
    told,
)
from memlane.embedded.postgres import EmbeddedPostgres
from support.embedding_server import EmbeddingServer, Fault
from support.service import Deployment

LOCK = (
    "select 1 from channels c join projects p on p.id = c.project_id"
    " where p.slug = $1 and c.user_id = 'u1' for update of c"
)


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(deployment: Deployment, running: Running) -> AsyncIterator[Tenant]:
    """A tenant whose own channel is there already, with one memory."""
    new = await Tenant.new(deployment)
    assert (await save(running.client, new.headers(), statement(1))).status_code == 201
    yield new
    await status_is(running.client, "/api/ready", 200)
    assert (await save(running.client, new.headers(), statement(4))).status_code == 201
    await assert_sound_history(new)


@pytest.mark.parametrize("broken", ["hangs", "locked"])
@pytest.mark.parametrize("count", [3, 100])
async def test_a_batch_that_cannot_be_written_is_refused_whole_in_time(
    server: EmbeddedPostgres, deployment: Deployment, tenant: Tenant, running: Running, count: int, broken: str
) -> None:
    async with AsyncExitStack() as fault:
        if broken == "hangs":
            fault.enter_context(frozen(server))
        else:
            other = await fault.enter_async_context(session(deployment))
            await fault.enter_async_context(other.transaction())
            await other.execute(LOCK, tenant.slug)
        got = await timed(save_batch(running.client, tenant.headers(), drafts(range(100, 100 + count))))
    assert_unavailable(got, "STORAGE_UNAVAILABLE")
    assert await tenant.live() == [statement(1)]


@pytest.mark.parametrize("first", ["user", "project"])
async def test_a_batch_with_one_locked_channel_saves_what_goes_to_the_other_and_tells_each_in_time(
    deployment: Deployment, tenant: Tenant, running: Running, first: str
) -> None:
    mine, shared = drafts(range(100, 110)), drafts(range(200, 205), scope="project")
    async with session(deployment) as other, other.transaction():
        await other.execute(LOCK, tenant.slug)
        memories = mine + shared if first == "user" else shared + mine
        got = await timed(save_batch(running.client, tenant.headers(), memories))
    saved, codes = told(got)
    assert got.seconds < PATIENCE
    assert saved == [statement(number) for number in range(200, 205)]
    assert codes == ["STORAGE_UNAVAILABLE"] * 10
    assert await tenant.live() == sorted([statement(1), *saved])


async def test_a_batch_whose_postgres_hangs_on_the_way_tells_what_was_saved_before(
    server: EmbeddedPostgres, deployment: Deployment, tenant: Tenant, running: Running
) -> None:
    async with session(deployment) as other:
        asked = asyncio.ensure_future(save_batch(running.client, tenant.headers(), drafts(range(100, 200))))

        async def begun() -> bool:
            sql = "select count(*) >= 3 from memories where content like 'The locker 1__ is%'"
            return bool(await other.fetchval(sql))

        await eventually(begun, "the first are saved", pause=0.001)
        with frozen(server):
            got = await timed(asked)
    saved, codes = told(got)
    assert got.seconds < PATIENCE
    assert saved == [statement(number) for number in range(100, 100 + len(saved))]
    assert len(saved) >= 2
    assert codes == ["STORAGE_UNAVAILABLE"] * (100 - len(saved))
    live = await tenant.live()
    assert {statement(1), *saved} <= set(live)
    assert len(live) <= len(saved) + 2, "at most the write that was under way stands untold"


@pytest.mark.parametrize("broken", ["hangs", "locked"])
async def test_a_slow_embedder_beside_a_broken_postgres_is_answered_for_in_time(
    server: EmbeddedPostgres, deployment: Deployment, tenant: Tenant, broken: str
) -> None:
    async with (
        EmbeddingServer("tei", slow_seconds=2.5) as slow,
        running_process(deployment, slow) as process,
        AsyncExitStack() as fault,
    ):
        me, client = tenant.headers(), process.client
        path = f"/api/memories/{(await save(client, me, statement(1))).json()['id']}"
        slow.fault = Fault.SLOW
        if broken == "hangs":
            fault.enter_context(frozen(server))
        else:
            other = await fault.enter_async_context(session(deployment))
            await fault.enter_async_context(other.transaction())
            await other.execute("select 1 from channels for update")
        asked = (
            save(client, me, statement(2)),
            client.patch(path, headers=me, json=drafts([3])[0]),
            save_batch(client, me, drafts(range(100, 103))),
            save_batch(client, me, drafts(range(200, 300))),
        )
        for got in await asyncio.gather(*(timed(one) for one in asked)):
            assert_unavailable(got, "STORAGE_UNAVAILABLE")
