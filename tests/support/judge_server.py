"""A real judging and reranking service on a loopback port, with a script for its verdicts.

    async with JudgeServer(same=[("Plays the cello.", "Is a cellist.")]) as judge:
        judge.fault = Fault.SLOW

It answers TEI's ``/predict`` and ``/rerank`` and OpenAI's ``/v1/chat/completions``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from support.embedding_server import EmbeddingServer, _json


@dataclass
class JudgeServer(EmbeddingServer):
    """The service.

    Attributes:
        same: Pairs that say the same, in either order.
        one_way: Pairs of which only the first entails the second.
        relevance: What `/rerank` answers for a text; 0 for any other.
        says: What the chat model answers to a pair of `same`.
    """

    same: Iterable[tuple[str, str]] = ()
    one_way: Iterable[tuple[str, str]] = ()
    relevance: dict[str, float] = field(default_factory=dict)
    says: str = "yes"

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/predict", self._predict, methods=["POST"]),
                Route("/rerank", self._rerank, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ]
        )

    def entails(self, one: str, other: str) -> bool:
        """Whether the script says that one text entails another."""
        return one == other or (one, other) in self.same or (other, one) in self.same or (one, other) in self.one_way

    @property
    def judged(self) -> list[tuple[str, str]]:
        """The pairs that were asked about, in order, each as (present wording, new text)."""
        pairs: list[tuple[str, str]] = []
        for call in self.calls:
            if call.path == "/predict":
                pairs.append(tuple(call.body["inputs"][0]))
            elif call.path == "/v1/chat/completions":
                pairs.append(tuple(orjson.loads(call.body["messages"][1]["content"])))
        return pairs

    async def _predict(self, request: Request) -> Response:
        body = await self._noted(request)
        if faulty := await self._plain_fault():
            return faulty
        scores = [0.97 if self.entails(one, other) else 0.02 for one, other in body["inputs"]]
        return _json(
            [
                [{"score": score, "label": "entailment"}, {"score": 1 - score, "label": "not_entailment"}]
                for score in scores
            ]
        )

    async def _chat(self, request: Request) -> Response:
        body = await self._noted(request)
        if faulty := await self._plain_fault():
            return faulty
        one, other = orjson.loads(body["messages"][1]["content"])
        said = self.says if self.entails(one, other) and self.entails(other, one) else "no"
        return _json({"choices": [{"index": 0, "message": {"role": "assistant", "content": said}}]})

    async def _rerank(self, request: Request) -> Response:
        body = await self._noted(request)
        if faulty := await self._plain_fault():
            return faulty
        rows = [{"index": at, "score": self.relevance.get(text, 0.0)} for at, text in enumerate(body["texts"])]
        return _json(sorted(rows, key=lambda row: -row["score"]))

    async def _noted(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = orjson.loads(await request.body())
        self._note(request, body)
        return body
