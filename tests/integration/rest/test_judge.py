"""Absorb by a judge: asked only where the form cannot tell, over a real HTTP server with scripted verdicts."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from integration.rest.house import Borrowed, Shop
from memlane.usecases.ports import Embedder, Vector
from support.embedding_server import Fault
from support.judge_server import JudgeServer
from support.service import Service, running_service

PAIRS = Path(__file__).parents[2] / "data" / "absorb_pairs_split.jsonl"
CELLO, CELLIST, STRINGS = "Plays the cello.", "Is a player of the cello.", "Is a fine player of the cello."
Kind = Literal["entailment", "chat"]


@asynccontextmanager
async def judged_by(house: Service, embedder: Embedder, judge: JudgeServer, kind: Kind) -> AsyncIterator[Shop]:
    settings = house.deployment.settings(judge=kind, judge_url=judge.url, judge_model="arbiter")
    async with running_service(house.deployment, settings, embedder=Borrowed(embedder)) as (service, _):
        yield Shop(service)


@pytest.mark.parametrize("kind", ["entailment", "chat"])
async def test_what_a_judge_proves_is_absorbed_and_the_answer_and_the_ledger_say_so(
    house: Service, embedder: Embedder, kind: Kind
) -> None:
    async with JudgeServer(same=[(CELLO, CELLIST)]) as judge, judged_by(house, embedder, judge, kind) as shop:
        me = await shop.headers()
        first = await shop.save(me, CELLO)
        second = await shop.save(me, CELLIST)
        assert (second["id"], second["absorbed"], second["absorbedBy"]) == (first["id"], True, "judge")
        assert await shop.listed(me) == [CELLIST]
        third = await shop.save(me, "is a player of the cello")
        assert (third["absorbed"], third["absorbedBy"]) == (True, "form")
        writes = (await shop.client.get(f"/api/memories/{first['id']}/provenance", headers=me)).json()["writes"]
        assert [write["absorbedBy"] for write in writes] == [None, "judge", "form"]
        assert judge.judged == [(CELLO, CELLIST)], "the form's proof needs no judge"


@pytest.mark.parametrize("kind", ["entailment", "chat"])
async def test_a_no_or_one_direction_or_a_muddled_answer_is_different(
    house: Service, embedder: Embedder, kind: Kind
) -> None:
    async with (
        JudgeServer(one_way=[(CELLO, CELLIST)], says="yes, I think so") as judge,
        judged_by(house, embedder, judge, kind) as shop,
    ):
        me = await shop.headers()
        await shop.save(me, CELLO)
        assert (await shop.save(me, CELLIST))["absorbed"] is False
        judge.one_way, judge.same = (), [(CELLO, "Performs on the cello.")]
        answer = await shop.save(me, "Performs on the cello.")
        assert answer["absorbed"] is (kind == "entailment"), "a chat model has to say yes and nothing else"


async def test_a_chain_is_proven_against_the_present_and_every_absorbed_wording(
    house: Service, embedder: Embedder
) -> None:
    """A absorbs B; C is like B and not like A: no drift."""
    pairs = [(CELLO, CELLIST), (CELLIST, STRINGS)]
    async with JudgeServer(same=pairs) as judge, judged_by(house, embedder, judge, "entailment") as shop:
        me = await shop.headers()
        await shop.save(me, CELLO)
        await shop.save(me, CELLIST)
        assert (await shop.save(me, STRINGS))["absorbed"] is False
        assert sorted(await shop.listed(me)) == sorted([CELLIST, STRINGS])
        assert judge.judged[1:] == [(CELLIST, STRINGS), (CELLO, STRINGS)]
        # What is proven against both is absorbed.
        judge.same = [*pairs, (CELLIST, "A cello player."), (CELLO, "A cello player.")]
        assert (await shop.save(me, "A cello player."))["absorbedBy"] == "judge"


@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.SLOW, Fault.STATUS_500, Fault.RUBBISH, Fault.REDIRECT])
@pytest.mark.parametrize("kind", ["entailment", "chat"])
async def test_a_judge_that_is_down_or_slow_means_different_and_never_fails_a_save(
    house: Service, embedder: Embedder, kind: Kind, fault: Fault
) -> None:
    async with JudgeServer(same=[(CELLO, CELLIST)]) as judge, judged_by(house, embedder, judge, kind) as shop:
        me = await shop.headers()
        await shop.save(me, CELLO)
        judge.fault = fault
        began = time.monotonic()
        assert (await shop.save(me, CELLIST))["absorbed"] is False
        assert time.monotonic() - began < 4
        assert len(await shop.listed(me)) == 2


class Slow(Borrowed):
    """Takes its time with each text, as a busy service does."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        await asyncio.sleep(2.5)
        return await self._owner.embed_documents(texts)


async def test_a_slow_embedder_leaves_a_slow_judge_less_time_and_the_save_stands(
    house: Service, embedder: Embedder
) -> None:
    async with JudgeServer(same=[(CELLO, CELLIST)]) as judge:
        settings = house.deployment.settings(judge="entailment", judge_url=judge.url, judge_model="arbiter")
        async with running_service(house.deployment, settings, embedder=Slow(embedder)) as (service, _):
            shop = Shop(service)
            me = await shop.headers()
            first = await shop.save(me, CELLO)
            judge.fault = Fault.SLOW
            began = time.monotonic()
            assert (await shop.save(me, CELLIST))["absorbed"] is False
            assert time.monotonic() - began < 4.8
            began = time.monotonic()
            assert (await shop.supersede(me, first["id"], STRINGS)).status_code == 200
            assert time.monotonic() - began < 4.8


async def test_a_supersede_asks_the_judge_too_and_never_about_its_target(house: Service, embedder: Embedder) -> None:
    async with (
        JudgeServer(same=[(CELLO, CELLIST), (STRINGS, CELLIST)]) as judge,
        judged_by(house, embedder, judge, "entailment") as shop,
    ):
        me = await shop.headers()
        target = await shop.save(me, CELLO)
        changed = (await shop.supersede(me, target["id"], CELLIST)).json()
        assert (changed["absorbed"], changed["retiredId"]) == (False, target["id"])
        assert judge.judged == []
        other = await shop.save(me, "Keeps bees on the roof.")
        merged = (await shop.supersede(me, other["id"], CELLO)).json()
        assert (merged["id"], merged["absorbedBy"]) == (changed["id"], "judge")
        assert await shop.listed(me) == [CELLO]


async def test_other_days_secrets_kinds_and_users_are_never_judged(house: Service, embedder: Embedder) -> None:
    async with JudgeServer() as judge, judged_by(house, embedder, judge, "entailment") as shop:
        me, other = await shop.headers(), await shop.headers("u2")
        await shop.save(me, "The flight to Oslo is today.")
        await shop.save(me, "The plane to Oslo leaves today.")
        await shop.save(me, "The wifi passcode is tulip.")
        await shop.save(me, "The passcode of the wifi is tulip.")
        await shop.save(me, CELLO)
        await shop.save(me, CELLIST, "episodic")
        await shop.save(other, CELLIST)
        assert judge.judged == []


async def test_no_batch_waits_for_a_slow_judge_longer_than_a_single_save_may(
    house: Service, embedder: Embedder
) -> None:
    async with JudgeServer() as judge, judged_by(house, embedder, judge, "entailment") as shop:
        me = await shop.headers()
        await shop.save(me, CELLO)
        judge.fault = Fault.SLOW
        drafts = [{"content": f"Plays the cello in {town}.", "kind": "topical"} for town in ("Bo", "Rå", "Pau", "Ulm")]
        began = time.monotonic()
        answer = await shop.post(me, {"memories": drafts}, "/api/memories/batch")
        assert [one["absorbed"] for one in answer.json()["outcomes"]] == [False] * 4
        assert time.monotonic() - began < 8


async def test_with_a_judge_nine_in_ten_duplicates_are_absorbed_and_nothing_else(
    house: Service, embedder: Embedder
) -> None:
    """The judge is scripted from the labels, so this shows that the band and its guards let the duplicates through."""
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    pairs = [pair for pair in pairs if pair["split"] == "held"]
    same = {(pair["a"], pair["b"]) for pair in pairs if pair["label"] == "dup"}
    async with JudgeServer(same=same) as judge, judged_by(house, embedder, judge, "entailment") as shop:
        key = await shop.headers()
        absorbed: dict[str, list[Any]] = {"dup": [], "keep": []}
        for number, pair in enumerate(pairs):
            me = {**key, "X-Cpki-User-Id": f"pair-{number}"}
            await shop.save(me, pair["a"])
            absorbed[pair["label"]].append((await shop.save(me, pair["b"]))["absorbed"])
        assert not any(absorbed["keep"])
        assert sum(absorbed["dup"]) >= 0.9 * len(absorbed["dup"])


async def test_a_reranker_reorders_the_first_results_and_its_silence_changes_nothing(
    house: Service, embedder: Embedder
) -> None:
    facts = ["Likes green tea.", "Likes black tea.", "Likes tea with milk."]
    async with JudgeServer(relevance={facts[2]: 1.0}) as server:
        settings = house.deployment.settings(reranker_url=server.url)
        async with running_service(house.deployment, settings, embedder=Borrowed(embedder)) as (service, _):
            shop = Shop(service)
            me = await shop.headers()
            for fact in facts:
                await shop.save(me, fact)
            reranked = (await shop.recall(me, "green tea"))["memories"]
            assert reranked[0]["content"] == facts[2]
            assert [row["score"] for row in reranked] == sorted((row["score"] for row in reranked), reverse=True)
            assert len((await shop.recall(me, "green tea", limit=1))["memories"]) == 1
            assert all(row["score"] >= 0.5 for row in (await shop.recall(me, "green tea", minScore=0.5))["memories"])
            server.fault = Fault.STATUS_500
            plain = (await shop.recall(me, "green tea"))["memories"]
            assert plain[0]["content"] == facts[0]
