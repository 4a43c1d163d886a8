"""POST /api/memories/recall: what is found, in which order, and what happens without an embedder."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from integration.rest.house import Borrowed, Shop, error_of
from memlane.domain.scoring import centred_cosine, fuse, fusion_weights, idf_coverage
from memlane.domain.terms import index_terms, query_terms
from memlane.usecases.ports import Embedder
from support.embedding_server import EmbeddingServer, Fault
from support.service import Deployment, Service, headers_of, running_service

FACTS = (
    "The user prefers green tea over coffee.",
    "The staging server is called heron and runs Debian.",
    "Ada's birthday is on 3 May.",
    "The warehouse in Basel opens at seven.",
    "The user is allergic to peanuts.",
    "Deployments happen on Tuesdays, never on Fridays.",
    "The cat's name is Schrödinger.",
    "Invoices go to billing@example.com.",
)


async def save_all(shop: Shop, me: dict[str, Any], *contents: str, **more: Any) -> list[Any]:
    drafts = [{"content": content, "kind": "topical", **more} for content in contents]
    return list((await shop.post(me, {"memories": drafts}, "/api/memories/batch")).json()["outcomes"])


async def test_the_best_match_comes_first_with_its_score(shop: Shop, me: dict[str, Any]) -> None:
    await save_all(shop, me, *FACTS)
    found = (await shop.recall(me, "what must she not eat, any allergies?"))["memories"]
    assert found[0]["content"] == "The user is allergic to peanuts."
    assert found[0].keys() == {
        "id", "kind", "scope", "content", "sourceThreadIds", "invalidatedAt", "createdAt", "updatedAt", "recalledAt",
        "score",
    }  # fmt: skip


@pytest.mark.parametrize("query", [*FACTS, "tea", "what does the user like", "the", "🦊", "zzzz", "!!!"])
async def test_scores_are_in_0_to_1_and_fall(shop: Shop, me: dict[str, Any], query: str) -> None:
    await save_all(shop, me, *FACTS)
    scores = [row["score"] for row in (await shop.recall(me, query, limit=20))["memories"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


async def test_a_memorys_own_text_scores_near_1(shop: Shop, me: dict[str, Any]) -> None:
    await save_all(shop, me, *FACTS)
    best = (await shop.recall(me, FACTS[1]))["memories"][0]
    assert best["content"] == FACTS[1]
    assert best["score"] > 0.99


@pytest.mark.parametrize(
    "query", ["when does the warehouse open", "tea", "allergic to Debian on Fridays", "who", "Schrödinger 3 May"]
)
async def test_the_score_is_the_one_of_the_formula(
    shop: Shop, me: dict[str, Any], embedder: Embedder, query: str
) -> None:
    """SQL against the pure functions of `memlane.domain.scoring`, over rows of both scopes."""
    await save_all(shop, me, *FACTS[:5])
    await save_all(shop, me, *FACTS[5:], scope="project")
    vectors = dict(zip(FACTS, await embedder.embed_documents(FACTS), strict=True))
    asked, terms = await embedder.embed_query(query), query_terms(query)
    mean = [sum(column) / len(FACTS) for column in zip(*vectors.values(), strict=True)]
    df = Counter(term for fact in FACTS for term in index_terms(fact))
    weights = fusion_weights(has_vector=True, has_terms=bool(terms))
    expected = {
        fact: fuse(
            weights=weights,
            cosine=centred_cosine(vectors[fact], asked, mean, len(FACTS)),
            coverage=idf_coverage(terms, index_terms(fact), df, len(FACTS)),
        )
        for fact in FACTS
    }
    found = {row["content"]: row["score"] for row in (await shop.recall(me, query, limit=20))["memories"]}
    # The database keeps vectors in halves: three decimal digits.
    assert {fact: found.get(fact, 0.0) for fact in FACTS} == pytest.approx(expected, abs=0.004)


async def test_five_are_found_when_no_limit_is_named(shop: Shop, me: dict[str, Any]) -> None:
    await save_all(shop, me, *(f"The warehouse has {number} doors." for number in range(9)))
    assert len(await shop.recalled(me, "warehouse doors")) == 5


@pytest.mark.parametrize("limit", [1, 3, 20])
async def test_the_limit_cuts_after_the_best(shop: Shop, me: dict[str, Any], limit: int) -> None:
    await save_all(shop, me, *(f"The warehouse has {number} doors." for number in range(25)))
    whole = await shop.recalled(me, "warehouse doors", limit=20)
    assert await shop.recalled(me, "warehouse doors", limit=limit) == whole[:limit]
    assert len(whole) == 20


@pytest.mark.parametrize("scope", ["user", "project"])
async def test_a_scope_leaves_out_the_other(shop: Shop, me: dict[str, Any], scope: str) -> None:
    for one in ("user", "project"):
        await shop.save(me, f"Tea of the {one}.", scope=one)
    assert await shop.recalled(me, "tea", scope=scope) == [f"Tea of the {scope}."]
    assert len(await shop.recalled(me, "tea")) == 2


async def test_a_kind_leaves_out_the_others(shop: Shop, me: dict[str, Any]) -> None:
    for kind in ("topical", "episodic", "operational"):
        await shop.save(me, f"A note on tea, {kind}.", kind)
    assert await shop.recalled(me, "tea", kind="episodic") == ["A note on tea, episodic."]


async def test_a_least_score_leaves_out_what_scores_less(shop: Shop, me: dict[str, Any]) -> None:
    await save_all(shop, me, *FACTS)
    scores = [row["score"] for row in (await shop.recall(me, "green tea", limit=20))["memories"]]
    for least in (0, 0.2, 0.5, scores[0], 1):
        found = (await shop.recall(me, "green tea", limit=20, minScore=least))["memories"]
        assert [row["score"] for row in found] == [score for score in scores if score >= least]


@pytest.mark.parametrize("query", ["wharehouse", "peanust allergy", "the debain server", "birtday"])
async def test_a_slip_of_the_pen_finds_what_was_meant_without_the_embedder(
    remote: tuple[Shop, EmbeddingServer], query: str
) -> None:
    shop, server = remote
    me = await shop.headers()
    await save_all(shop, me, *FACTS)
    server.fault = Fault.DOWN
    found = await shop.recalled(me, query)
    assert {word for word in ("warehouse", "peanuts", "Debian", "birthday") if any(word in fact for fact in found)}
    assert len(found) == 1


async def test_null_is_as_good_as_left_out(shop: Shop, me: dict[str, Any]) -> None:
    await save_all(shop, me, *FACTS)
    assert (await shop.recall(me, "tea", scope=None, kind=None, minScore=None))["memories"]


async def test_retired_and_superseded_rows_are_never_recalled(shop: Shop, me: dict[str, Any]) -> None:
    gone, old = await save_all(shop, me, "Likes green tea.", "Likes black tea.")
    await shop.retire(me, gone["id"])
    await shop.supersede(me, old["id"], "Likes white tea.")
    assert await shop.recalled(me, "tea", limit=20) == ["Likes white tea."]


async def test_nothing_is_found_where_nothing_is(shop: Shop, me: dict[str, Any]) -> None:
    assert await shop.recall(me, "tea") == {"memories": []}


async def test_the_grant_limits_what_is_recalled(shop: Shop, me: dict[str, Any]) -> None:
    for scope in ("user", "project"):
        await shop.save(me, f"Tea of the {scope}.", scope=scope)
    limited = {**me, "X-Cpki-Memory-Grant": '{"project":"read"}'}
    assert await shop.recalled(limited, "tea") == ["Tea of the project."]
    answer = await shop.post(limited, {"query": "tea", "scope": "user"}, "/api/memories/recall")
    assert error_of(answer) == (403, "MEMORY_GRANT_DENIED")


async def test_an_absorbed_wording_is_recalled_by_its_new_words(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.")
    await shop.save(me, "LIKES TEA!")
    assert await shop.recalled(me, "tea") == ["LIKES TEA!"]


@pytest.mark.parametrize(
    "query",
    [
        "tea & !(coffee | milk):*", "tea <-> <2> 'x' ''", ".*", "(((", "[a-", "(?P<x>.+)+$", "%", "_", "\\", "\\x",
        "'; drop table memories; --", '"', "NOT AND OR NEAR", 'TODO: (fix) "a/b AND', "*", "{}", "$1", "{0}",
        "<|endoftext|>", "\u202e", "\ufdfa" * 200, "a\u0301" * 4000, "a " * 4096, "𠀋" * 8192,
    ],
)  # fmt: skip
async def test_user_text_is_never_query_syntax(shop: Shop, me: dict[str, Any], query: str) -> None:
    await shop.save(me, "The cat sleeps.")
    await shop.save(me, query)
    assert query in await shop.recalled(me, query)


# --- recalledAt


async def test_a_recall_is_told_within_2_s_and_moves_no_position(shop: Shop, me: dict[str, Any]) -> None:
    saved, other = await save_all(shop, me, "Likes green tea.", "The server runs Debian.")
    positions = (await shop.page(me))["positions"]
    before = datetime.now(UTC)
    await shop.recall(me, "green tea", limit=1)
    deadline = time.monotonic() + 2
    while (row := (await shop.read(me, saved["id"])).json())["recalledAt"] is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert abs((datetime.fromisoformat(row["recalledAt"]) - before).total_seconds()) < 2
    assert row["updatedAt"] == saved["updatedAt"]
    assert (await shop.read(me, other["id"])).json()["recalledAt"] is None
    assert (await shop.page(me))["positions"] == positions


async def test_every_recall_is_counted(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes green tea.")
    for _ in range(3):
        await shop.recall(me, "tea")
    deadline = time.monotonic() + 2
    while [row[0] for row in await shop.rows("select recall_count from memory_recalls where project_id = $1")] != [3]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


# --- Without an embedder


@pytest_asyncio.fixture(loop_scope="session")
async def remote(house: Service) -> AsyncIterator[tuple[Shop, EmbeddingServer]]:
    """A project on a service whose embedder is a server that a test can break."""
    async with EmbeddingServer("tei") as server:
        settings = house.deployment.settings(
            embeddings_url=server.url, embedding_model=server.model, embedding_dimensions=server.dimensions
        )
        async with running_service(house.deployment, settings) as (service, _):
            yield Shop(service), server


CJK = {
    "東京タワーの近くに住んでいます。": "東京",
    "用户住在北京，喜欢喝绿茶。": "绿茶",
    "사용자는 서울에 산다.": "서울",
    "ผู้ใช้ชอบดื่มชาเขียว": "ชาเขียว",
}


async def test_without_the_embedder_recall_goes_by_words_alone_and_says_so(
    remote: tuple[Shop, EmbeddingServer],
) -> None:
    shop, server = remote
    me = await shop.headers()
    await save_all(shop, me, *FACTS, *CJK)
    assert "degraded" not in await shop.recall(me, "tea")

    server.fault = Fault.DOWN
    began = time.monotonic()
    answer = await shop.recall(me, "green tea")
    assert time.monotonic() - began < 5
    assert answer["degraded"] == ["embedder"]
    assert answer["memories"][0]["content"] == "The user prefers green tea over coffee."
    assert answer["memories"][0]["score"] == pytest.approx(1)
    for fact, word in CJK.items():
        assert await shop.recalled(me, word) == [fact]
    assert await shop.recall(me, "the of and") == {"memories": [], "degraded": ["embedder"]}


async def test_without_the_embedder_a_strict_recall_and_a_save_are_503(
    remote: tuple[Shop, EmbeddingServer],
) -> None:
    shop, server = remote
    me = await shop.headers()
    saved = await shop.save(me, "Likes tea.")
    server.fault = Fault.DOWN
    draft = {"content": "Likes coffee.", "kind": "topical"}
    answers = [
        await shop.post(me, {"query": "tea", "strict": True}, "/api/memories/recall"),
        await shop.post(me, draft),
        await shop.post(me, {"memories": [draft, draft]}, "/api/memories/batch"),
        await shop.supersede(me, saved["id"], "Likes coffee."),
    ]
    assert [error_of(answer) for answer in answers] == [(503, "EMBEDDER_UNAVAILABLE")] * 4
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert await shop.listed(me) == ["Likes tea."]


async def test_what_needs_no_embedding_works_without_the_embedder(remote: tuple[Shop, EmbeddingServer]) -> None:
    shop, server = remote
    me = await shop.headers()
    keyed = {**me, "Idempotency-Key": "k1"}
    saved = await shop.save(keyed, "Likes tea.")
    server.fault = Fault.DOWN
    assert await shop.save(keyed, "Likes tea.") == saved
    assert (await shop.retire(me, saved["id"])).status_code == 204
    assert (await shop.restore(me, saved["id"])).status_code == 200
    assert await shop.listed(me) == ["Likes tea."]


async def test_readiness_names_the_embedder_that_is_down_and_acceptance_stays_green(
    remote: tuple[Shop, EmbeddingServer],
) -> None:
    shop, server = remote
    server.fault = Fault.DOWN
    ready = await shop.client.get("/api/ready")
    assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
    assert {name for name, state in ready.json()["checks"].items() if state != "ok"} == {"embedder"}
    for path in ("/api/live", "/api/accepting", "/api/health"):
        assert (await shop.client.get(path)).status_code == 200


async def test_a_strict_recall_with_the_embedder_is_a_plain_one(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.")
    assert (await shop.recall(me, "tea", strict=True)).keys() == {"memories"}


async def test_a_recall_of_known_words_is_one_round_trip(
    deployment: Deployment, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_service(deployment, embedder=Borrowed(embedder)) as (service, process):
        me = headers_of(await deployment.key(), "ada")
        await service.save(me, FACTS[0])
        await service.save(me, FACTS[2], scope="project")
        # The key and the statements are known from here on.
        await service.recall(me, "green tea")
        trips = 0
        read = process.pool.read

        async def counted(act: Any) -> Any:
            nonlocal trips
            trips += 1
            return await read(act)

        monkeypatch.setattr(process.pool, "read", counted)
        found = (await service.recall(me, "does the user prefer green tea over coffee"))["memories"]
        assert (found[0]["content"], trips) == (FACTS[0], 1)
        # Of a word that no memory has, a near spelling is looked for, and the search made with it.
        found = (await service.recall(me, "preferrs cofee"))["memories"]
        assert (found[0]["content"], trips) == (FACTS[0], 1 + 3)
