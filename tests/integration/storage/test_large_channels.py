"""A project channel that is searched by its index answers what the exact search answers."""

import itertools
from collections.abc import Iterator
from typing import Any, cast

import pytest

from integration.cli.shell import borrowed
from memlane.storage import statistics
from memlane.storage.large_channels import SELECTIVE_ROWS, UNKNOWN_COUNT, selective
from memlane.storage.near_index import build_near_index
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.statements import statement_for_space
from memlane.storage.statistics import count_due, recount
from memlane.storage.upkeep import PostgresUpkeep
from memlane.usecases.ports import Embedder
from memlane.usecases.reembed import activate
from support.service import Service, headers_of, running_service
from support.turned import Turned

PEOPLE = ("Ada", "Noor", "Wei", "Ingrid", "Kwame", "Piotr")
DEEDS = (
    "keeps the incident log",
    "waters the plants",
    "tunes the espresso machine",
    "books the trains",
    "tests backups",
)
PLACES = ("in Berlin", "in Osaka", "at the harbour", "near the lab", "on the fourth floor")
FACTS = [f"{who} {does} {where}." for who, does, where in itertools.product(PEOPLE, DEEDS, PLACES)]
QUERIES = (
    "who looks after the flowers",
    "espresso at the harbour",
    "Kwame incident log",
    "backups near the lab",
    "plants",
)


@pytest.fixture
def small_is_large() -> Iterator[None]:
    """A channel of 100 rows counts as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "LARGE_MIN", 100)
        patch.setattr(statistics, "FREQUENT_MIN", 20)
        patch.setattr(statistics, "PAGE_ROWS", 40)
        yield


async def answers(service: Service, me: dict[str, Any], **more: Any) -> dict[str, dict[str, float]]:
    found = {query: (await service.recall(me, query, limit=10, **more))["memories"] for query in QUERIES}
    return {query: {row["content"]: row["score"] for row in rows} for query, rows in found.items()}


@pytest.mark.usefixtures("small_is_large")
async def test_a_large_channel_answers_as_the_exact_search_does(service: Service, embedder: Embedder) -> None:
    me = headers_of(await service.deployment.key())
    for start in range(0, len(FACTS), 50):
        drafts = [{"content": fact, "kind": "topical", "scope": "project"} for fact in FACTS[start : start + 50]]
        await service.client.post("/api/memories/batch", headers=me, json={"memories": drafts})
    await service.save(me, "Keeps bees behind the plants.")
    await service.save(me, "Plants are watered at noon.", "operational", scope="project")
    exact = await answers(service, me)
    exact_project = await answers(service, me, scope="project")

    dsn = service.deployment.dsn
    pool = Pool(dsn, PoolLimits(max_size=1))
    try:
        await count_due(pool)
        assert await count_due(pool) == 0, "nothing changed since"
    finally:
        await pool.aclose()
    (space,) = await service.deployment.fetch("select id from embedding_spaces")
    await build_near_index(dsn, space["id"], embedder.space.dimensions)
    await build_near_index(dsn, space["id"], embedder.space.dimensions)
    async with running_service(service.deployment) as (large, _):
        by_index = await answers(large, me, scope="project")
        for query, found in by_index.items():
            assert len(set(found) & set(exact_project[query])) >= 9, query
            for content in set(found) & set(exact_project[query]):
                # A term that is frequent in the statistics is counted to the last row of a page.
                assert found[content] == pytest.approx(exact_project[query][content], abs=0.02)
        both = await answers(large, me)
        assert "Keeps bees behind the plants." in both["plants"], "the user's own rows are searched beside it"
        assert len(set(both["plants"]) & set(exact["plants"])) >= 8
        (rare,) = (await large.recall(me, "who looks after the flowers", kind="operational", scope="project"))[
            "memories"
        ]
        assert rare["content"] == "Plants are watered at noon.", "a filter starves no result"
        saved = await large.save(me, "Ada waters the plants daily in Osaka.", scope="project")
        assert [one["id"] for one in saved["similar"]]
        again = await large.save(me, FACTS[0].upper(), scope="project")
        assert again["absorbed"] is True


@pytest.mark.usefixtures("small_is_large")
async def test_a_large_channel_whose_rows_move_is_searched_in_both_spaces(service: Service, embedder: Embedder) -> None:
    me, dsn, dimensions = headers_of(await service.deployment.key()), service.deployment.dsn, embedder.space.dimensions
    for start in range(0, len(FACTS), 50):
        drafts = [{"content": fact, "kind": "topical", "scope": "project"} for fact in FACTS[start : start + 50]]
        await service.client.post("/api/memories/batch", headers=me, json={"memories": drafts})
    exact = await answers(service, me, scope="project")
    new = cast("Embedder", Turned(embedder))
    pool = Pool(dsn, PoolLimits(max_size=1))
    try:
        upkeep = PostgresUpkeep(pool)
        await count_due(pool)
        moved_to = await activate(upkeep, new)
        for space in await upkeep.spaces():
            await build_near_index(dsn, space.id, dimensions)
        rows = await upkeep.foreign_rows(moved_to, len(FACTS) // 2)
        await upkeep.move(rows, moved_to, await new.embed_documents([row.content for row in rows]))
        await recount(pool)
    finally:
        await pool.aclose()
    async with running_service(service.deployment, embedder=borrowed(new), earlier=borrowed(embedder)) as (large, _):
        found = await answers(large, me, scope="project")
    for query in QUERIES:
        assert len(set(found[query]) & set(exact[query])) >= 7, query
        assert max(found[query].values()) == pytest.approx(max(exact[query].values()), abs=0.1)


def test_selective_terms_are_the_rarest_and_bounded() -> None:
    counts = {"user": 90_000, "tea": 2_000, "green": 1_500}
    assert selective(["user", "tea", "zephyr"], counts) == ["zephyr", "tea"]
    assert selective(["user"], counts) == ["user"], "at least one"
    assert selective([], counts) == []
    many = [f"t{number}" for number in range(50)]
    assert len(selective(many, {})) == SELECTIVE_ROWS // UNKNOWN_COUNT


def test_a_statement_of_a_space_names_its_number_and_its_dimensions() -> None:
    text = statement_for_space("recall_large", 7, 1024)
    assert "space_id = 7" in text
    assert "halfvec(1024)" in text
    assert "space_id = 0" not in text
    assert "halfvec(384)" not in text
    assert "memories_near_7" in statement_for_space("create_near_index", 7, 1024)
