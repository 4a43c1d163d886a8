"""Background work on rows: a newer form re-keys them, a change of models moves them, and no reader sees either."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio

from integration.cli.shell import borrowed
from memlane.domain.canonical import CANONICAL_VERSION
from memlane.domain.errors import Misconfigured
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.upkeep import PostgresUpkeep
from memlane.usecases.ports import Embedder
from memlane.usecases.reembed import activate, reembed
from memlane.usecases.rekey import rekey_batch
from support.service import Deployment, Service, headers_of, running_service
from support.turned import Turned

FACTS = ("Likes green tea.", "Keeps bees behind the chapel.", "The staging server is heron.", "Ama rides horses.")


@pytest_asyncio.fixture(loop_scope="session")
async def upkeep(deployment: Deployment) -> AsyncIterator[PostgresUpkeep]:
    pool = Pool(deployment.dsn, PoolLimits(max_size=2))
    yield PostgresUpkeep(pool)
    await pool.aclose()


async def _ignored(_count: int) -> None:
    return


async def make_stale(deployment: Deployment) -> None:
    await deployment.execute("update memories set canonical_version = 0, absorb_key = sha256(id::text::bytea)")


async def test_stale_rows_get_the_key_of_the_present_version_and_absorb_again(
    service: Service, upkeep: PostgresUpkeep
) -> None:
    me = headers_of(await service.deployment.key())
    saved = await service.save(me, "The user resides in Ghent.")
    await make_stale(service.deployment)
    assert (await service.save(me, "The user lives in Ghent"))["absorbed"] is False
    await service.client.delete(f"/api/memories/{(await service.list(me))['memories'][0]['id']}", headers=me)
    before = await service.list(me)
    assert await rekey_batch(upkeep) == 1
    assert await rekey_batch(upkeep) == 0
    assert await service.list(me) == before, "no reader sees it"
    again = await service.save(me, "The user lives in Ghent")
    assert (again["id"], again["absorbed"]) == (saved["id"], True)


async def test_the_running_worker_rekeys_by_itself(service: Service) -> None:
    me = headers_of(await service.deployment.key())
    await service.save(me, FACTS[0])
    await make_stale(service.deployment)
    # The worker of this process looked before; a process that starts looks at once.
    async with running_service(service.deployment) as _:
        sql, deadline = "select count(*) from memories where canonical_version <> $1", time.monotonic() + 10
        while (await service.deployment.fetch(sql, CANONICAL_VERSION))[0][0]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def test_two_live_rows_that_a_newer_form_joins_both_stay_and_one_has_the_key(
    service: Service, upkeep: PostgresUpkeep
) -> None:
    me = headers_of(await service.deployment.key())
    await service.save(me, "The user resides in Ghent.")
    await make_stale(service.deployment)
    await service.save(me, "The user lives in Ghent.")
    assert await rekey_batch(upkeep) == 1
    assert len((await service.list(me))["memories"]) == 2
    keys = await service.deployment.fetch("select absorb_key from memories")
    assert sorted(row[0] is None for row in keys) == [False, True]
    assert (await service.save(me, "The user lives in Ghent!"))["absorbed"] is True


async def test_a_text_of_a_day_keeps_its_day_and_a_shared_text_about_its_writer_gets_no_key(
    service: Service, upkeep: PostgresUpkeep
) -> None:
    me = headers_of(await service.deployment.key())
    await service.save(me, "The flight is today.")
    await service.save(me, "I live in Ghent.", scope="project")
    await make_stale(service.deployment)
    await service.deployment.execute("update write_ledger set written_at = written_at - interval '3 days'")
    assert await rekey_batch(upkeep) == 2
    assert (await service.save(me, "The flight is today."))["absorbed"] is False, "that was another day"
    other = headers_of(await service.deployment.key(), "u2")
    assert (await service.save(other, "I live in Ghent.", scope="project"))["absorbed"] is False


async def test_a_row_that_was_written_meanwhile_is_left_alone(service: Service, upkeep: PostgresUpkeep) -> None:
    me = headers_of(await service.deployment.key())
    await service.save(me, FACTS[0])
    await make_stale(service.deployment)
    (row,) = await upkeep.stale_rows(CANONICAL_VERSION, 1, 10)
    await upkeep.rekey(replace(row, seq=row.seq - 1), b"x" * 32, CANONICAL_VERSION, ["wrong"], 1)
    (untouched,) = await service.deployment.fetch("select canonical_version, terms from memories")
    assert untouched["canonical_version"] == 0
    assert "wrong" not in untouched["terms"]


async def scores(service: Service, me: dict[str, Any], query: str) -> dict[str, float]:
    found = await service.recall(me, query, limit=20)
    assert "degraded" not in found
    return {row["content"]: row["score"] for row in found["memories"]}


async def test_while_rows_move_to_another_model_recall_serves_both_and_never_mixes_vectors(
    deployment: Deployment, embedder: Embedder, upkeep: PostgresUpkeep
) -> None:
    queries = ("what does she drink", "where are the hives", "which machine is for staging", "a girl's hobby")
    key = headers_of(await deployment.key())
    async with running_service(deployment, embedder=borrowed(embedder)) as (old, _):
        for fact in FACTS:
            await old.save(key, fact)
        before = {query: await scores(old, key, query) for query in queries}

    new = cast("Embedder", Turned(embedder))
    async with running_service(deployment, embedder=borrowed(new), earlier=borrowed(embedder)) as (both, _):
        assert {query: await scores(both, key, query) for query in queries} == {
            query: pytest.approx(found, abs=0.002) for query, found in before.items()
        }
        moved_to = await activate(upkeep, new)
        foreign = await upkeep.foreign_rows(moved_to, 2)
        vectors = await new.embed_documents([row.content for row in foreign])
        assert await upkeep.move(foreign, moved_to, vectors) == 2
        for query, fact in zip(queries, FACTS, strict=True):
            half = await scores(both, key, query)
            assert max(half, key=lambda content: half[content]) == fact, "each is ranked in its own space"
        progress: list[int] = []

        async def on_rows(count: int) -> None:
            progress.append(count)

        assert await reembed(upkeep, new, on_rows) == 2
        assert sum(progress) == 2
        assert await upkeep.count_foreign(moved_to) == 0
        assert {query: await scores(both, key, query) for query in queries} == {
            query: pytest.approx(found, abs=0.002) for query, found in before.items()
        }


async def test_rows_of_a_model_that_is_gone_are_still_found_by_their_words(
    deployment: Deployment, embedder: Embedder
) -> None:
    key = headers_of(await deployment.key())
    async with running_service(deployment, embedder=borrowed(embedder)) as (old, _):
        await old.save(key, FACTS[1])
    async with running_service(deployment, embedder=borrowed(cast("Embedder", Turned(embedder)))) as (new, _):
        (found,) = (await new.recall(key, "bees behind the chapel"))["memories"]
        assert found["score"] == pytest.approx(0.36, abs=0.01)
        assert (await new.recall(key, "insects that make honey"))["memories"] == []


async def test_only_the_active_space_is_moved_to(embedder: Embedder, upkeep: PostgresUpkeep) -> None:
    await activate(upkeep, embedder)
    with pytest.raises(Misconfigured, match="embeddings activate"):
        await reembed(upkeep, cast("Embedder", Turned(embedder)), _ignored)
    await activate(upkeep, cast("Embedder", Turned(embedder)))
    assert [status.active for status in await upkeep.spaces()] == [False, True]
