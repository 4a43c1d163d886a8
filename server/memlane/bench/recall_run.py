"""Asks a running service a data set's questions, as a user would over HTTP."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx
import numpy as np

from memlane.bench.deployment import BenchFailed
from memlane.bench.recall_data import DataSet, Question, misspelt
from memlane.bench.recall_rankings import (
    DEPTH,
    Asked,
    Channel,
    Figures,
    Method,
    as_served,
    best,
    figures,
    texts_of,
)
from memlane.domain.queries import mean_vector
from memlane.embedding.local import LocalEmbedder

_BATCH = 50
MIN_SCORES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
"""The least scores that are tried."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's answer to one question: places of memories and their scores, best first, and how long it took."""

    places: list[int]
    scores: list[float]
    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """What a least score leaves: of the answers, and of questions that nothing answers.

    Attributes:
        min_score: The least score.
        recall_5: Of answerable questions, after the cut.
        precision_5: Of what is answered to answerable questions, how much is relevant, within the first five.
        silent: Share of the unanswerable questions that are answered with nothing; None without such questions.
    """

    min_score: float
    recall_5: float
    precision_5: float
    silent: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One data set's figures."""

    data: DataSet
    methods: dict[str, Figures]
    cuts: list[Cut]
    p50_ms: float
    p95_ms: float


class ServiceUnderTest:
    """A running service and a key of a project."""

    def __init__(self, url: str, key: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=30)
        self._key = key

    async def save(self, data: DataSet, on_memories: Callable[[int], None]) -> dict[str, dict[str, int]]:
        """Save a set's memories, one user for each of its own.

        Returns:
            For each user the place of the memory that each id stands for; of two that say the same, the first.
        """
        places: dict[str, dict[str, int]] = {}
        for user, contents in data.memories.items():
            mine = places.setdefault(user, {})
            for start in range(0, len(contents), _BATCH):
                chunk = contents[start : start + _BATCH]
                body = {"memories": [{"content": content, "kind": "topical"} for content in chunk]}
                answer = await self._post("/api/memories/batch", data, user, body)
                for place, outcome in enumerate(answer["outcomes"], start=start):
                    if "error" in outcome:
                        raise BenchFailed(f"a memory was not saved: {outcome['error']['code']}")
                    mine.setdefault(outcome["id"], place)
                on_memories(len(chunk))
        return places

    async def ask(self, data: DataSet, question: Question, places: dict[str, int]) -> Answer:
        """Recall one question's 20 best memories."""
        began = time.perf_counter()
        answer = await self._post(
            "/api/memories/recall", data, question.user, {"query": question.query, "limit": DEPTH, "scope": "user"}
        )
        seconds = time.perf_counter() - began
        rows = answer["memories"]
        return Answer([places[row["id"]] for row in rows], [row["score"] for row in rows], seconds)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, path: str, data: DataSet, user: str, body: object) -> Any:
        headers = {"Authorization": f"Bearer {self._key}", "X-Cpki-User-Id": f"{data.name}/{user}"}
        answer = await self._client.post(path, headers=headers, json=body)
        if answer.status_code != httpx.codes.OK:
            raise BenchFailed(f"{path} was answered with {answer.status_code}")
        return answer.json()


async def measure(
    service: ServiceUnderTest,
    data: DataSet,
    rivals: dict[str, Method],
    on_step: Callable[[int], None],
    *,
    slips: bool = False,
) -> Measured:
    """Save a set's memories, ask its questions, and rank them by the rivals too.

    Args:
        service: What is measured.
        data: The set; its users must not exist yet.
        rivals: Other rankings, computed in this process with the offline model.
        on_step: Told how many memories were saved or questions asked.
        slips: Ask the answerable questions again, misspelt.
    """
    places = await service.save(data, on_step)
    answers = []
    for question in data.questions:
        answers.append(await service.ask(data, question, places[question.user]))
        on_step(1)
    answered = [
        (question, answer) for question, answer in zip(data.questions, answers, strict=True) if question.relevant
    ]
    silent = [answer for question, answer in zip(data.questions, answers, strict=True) if not question.relevant]
    methods = await _rival_figures(data, rivals)
    methods["memlane, over HTTP"] = figures([answer.places for _, answer in answered], data.answerable)
    if slips:
        methods |= await _misspelt_figures(service, data, places)
    seconds = sorted(answer.seconds for answer in answers)
    return Measured(
        data,
        methods,
        [_cut(least, answered, silent) for least in MIN_SCORES],
        1000 * seconds[len(seconds) // 2],
        1000 * seconds[int(0.95 * (len(seconds) - 1))],
    )


def _cut(least: float, answered: Sequence[tuple[Question, Answer]], silent: Sequence[Answer]) -> Cut:
    recalls, shown, right = [], 0, 0
    for question, answer in answered:
        kept = [place for place, score in zip(answer.places, answer.scores, strict=True) if score >= least][:5]
        hits = sum(place in question.relevant for place in kept)
        recalls.append(hits / len(question.relevant))
        shown += len(kept)
        right += hits
    quiet = [not answer.scores or answer.scores[0] < least for answer in silent]
    return Cut(
        least, float(np.mean(recalls)), right / shown if shown else 0.0, float(np.mean(quiet)) if quiet else None
    )


async def _rival_figures(data: DataSet, rivals: dict[str, Method]) -> dict[str, Figures]:
    embedder = LocalEmbedder(time_limit=600.0, max_queue=100_000)
    try:
        channels = {
            user: Channel.of(contents, np.array(await embedder.embed_documents(contents), dtype=np.float64))
            for user, contents in data.memories.items()
        }
        asked = [await _asked(embedder, question) for question in data.answerable]
    finally:
        await embedder.aclose()
    return {
        name: figures([best(method(channels[one.question.user], one)) for one in asked], data.answerable)
        for name, method in rivals.items()
    }


async def _misspelt_figures(
    service: ServiceUnderTest, data: DataSet, places: dict[str, dict[str, int]]
) -> dict[str, Figures]:
    """The misspelt questions, asked over HTTP and ranked here without another spelling for any word."""
    chance = random.Random(5)  # noqa: S311 - slips of the pen, the same in every run
    questions = [misspelt(question, chance) for question in data.answerable]
    answers = [(await service.ask(data, question, places[question.user])).places for question in questions]
    as_they_are = replace(data, questions=questions)
    plain = await _rival_figures(as_they_are, {"misspelt, words taken as they are": as_served})
    return {**plain, "misspelt, memlane over HTTP": figures(answers, questions)}


async def _asked(embedder: LocalEmbedder, question: Question) -> Asked:
    vectors = [await embedder.embed_query(text) for text in texts_of(question)]
    return Asked(question, np.array(vectors[0]), np.array(mean_vector(vectors)))
