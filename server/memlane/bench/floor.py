"""The floor: the product's statements over a bare asyncpg pool, and its embedding call. Nothing else.

What the service makes of a text beside its vector (absorb key, terms, hashes) is prepared before the clock
starts: the floor is what cannot be left out, not what another program would also have to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
import uuid_utils

from memlane.bench.corpus import question, sentence
from memlane.bench.deployment import POOL_SIZE, BenchFailed, Deployment, kind_of
from memlane.bench.rounds import Action, Job, Round, closed_loop
from memlane.domain.canonical import CANONICAL_VERSION, absorb_key
from memlane.domain.ledger import CHAIN_START, wording_sha256
from memlane.domain.memory import Kind
from memlane.domain.queries import mean_vector, near_spellings, respelled, without_names
from memlane.domain.scoring import CENTERING_PRIOR, UNSEEN_SHARE, fusion_weights
from memlane.domain.terms import TERMS_VERSION, index_terms, query_terms
from memlane.embedding.local import LocalEmbedder
from memlane.storage.records import recall_page_of
from memlane.storage.statements import statement
from memlane.storage.store import SIMILAR_MAX
from memlane.usecases.list_memories import LIST_MAX
from memlane.usecases.recall import RECALL_DEFAULT

_SCOPES = ("user", "project")


@dataclass(frozen=True, slots=True)
class _Request:
    """A prepared request; what an action does not need is empty."""

    user: str
    text: str = ""
    kind: Kind = "topical"
    absorb_key: bytes | None = None
    terms: tuple[str, ...] = ()
    sha256: bytes | None = None
    memory_id: str = ""


class Floor:
    """Implements `rounds.Side`."""

    def __init__(self, deployment: Deployment, pool: "asyncpg.Pool[asyncpg.Record]", embedder: LocalEmbedder) -> None:
        self._deployment = deployment
        self._pool = pool
        self._embedder = embedder
        self._acts: dict[Action, Callable[[_Request], Awaitable[None]]] = {
            "save": self._save,
            "recall": self._recall,
            "list": self._list,
        }

    @classmethod
    async def open(cls, deployment: Deployment) -> "Floor":
        """Connect and load the model. No session is reset on release, which would be one more round trip."""
        pool = await asyncpg.create_pool(
            deployment.dsn, min_size=POOL_SIZE, max_size=POOL_SIZE, statement_cache_size=200, reset=_keep_session
        )
        return cls(deployment, pool, LocalEmbedder())

    async def run(self, job: Job) -> Round:
        """See `Side.run`."""
        requests = [self._prepared(job.action, job.first + place) for place in range(job.count)]
        return await closed_loop(requests, [self._acts[job.action]] * job.clients)

    async def aclose(self) -> None:
        """See `Side.aclose`."""
        await self._embedder.aclose()
        await self._pool.close()

    def _prepared(self, action: Action, number: int) -> _Request:
        user = self._deployment.user(number)
        if action == "list":
            return _Request(user)
        if action == "recall":
            text = question(number)
            return _Request(user, text, terms=tuple(query_terms(text)))
        text = sentence(number)
        return _Request(
            user,
            text,
            kind_of(number),
            absorb_key(text, scope="user", user_id=user, now=datetime.now(UTC)),
            tuple(index_terms(text)),
            wording_sha256(None, text),
            str(uuid_utils.uuid7()),
        )

    async def _list(self, request: _Request) -> None:
        names = (self._deployment.project_id, request.user, _SCOPES)
        rows = await self._pool.fetch(statement("list_snapshot"), *names, False, None, None, LIST_MAX + 1)
        if not rows:
            raise BenchFailed(f"the list of {request.user} is empty")

    async def _recall(self, request: _Request) -> None:
        nameless = without_names(request.text)
        asked = [request.text] if nameless is None else [request.text, nameless]
        embedding = mean_vector(await asyncio.gather(*(self._embedder.embed_query(text) for text in asked)))
        whose = (self._deployment.project_id, request.user, _SCOPES)

        async def find(terms: Sequence[str]) -> Sequence[asyncpg.Record]:
            weights = fusion_weights(has_vector=True, has_terms=bool(terms))
            return await self._pool.fetch(
                statement("recall"),
                *whose,
                *(self._deployment.space_id, embedding, terms),
                *(weights.dense, weights.lexical, CENTERING_PRIOR, None, 0.0, RECALL_DEFAULT, UNSEEN_SHARE),
                *(None, None, weights.both),
            )

        spellings = near_spellings(recall_page_of(await find(request.terms)).unseen)
        if not spellings:
            return
        every = sorted({spelling for some in spellings.values() for spelling in some})
        rows = await self._pool.fetch(statement("find_known_terms"), *whose, every)
        if rows:
            await find(respelled(request.terms, spellings, {row["term"]: row["df"] for row in rows}))

    async def _save(self, request: _Request) -> None:
        there = self._deployment
        (embedding,) = await self._embedder.embed_documents([request.text])
        await self._pool.fetch(
            statement("find_similar"),
            *(there.project_id, "user", request.user, request.kind, there.space_id, embedding),
            *(self._embedder.close_similarity, None, SIMILAR_MAX),
        )
        async with self._pool.acquire() as connection, connection.transaction():
            channel: Any = await connection.fetchrow(statement("lock_channel"), there.project_id, "user", request.user)
            names = (there.project_id, channel["id"])
            twin = await connection.fetchrow(statement("find_twin"), *names, request.kind, request.absorb_key, None)
            if twin is not None:
                raise BenchFailed("a text was saved twice")
            await connection.fetchrow(
                statement("insert_memory"),
                *(*names, request.memory_id, "user", request.kind, request.text, ()),
                *(request.absorb_key, CANONICAL_VERSION, request.terms, TERMS_VERSION),
                *(there.space_id, embedding, None),
                *(there.lane_id, there.lane_name, there.key_id, "unknown", "unknown", "unknown", there.trust),
                *("unknown", request.memory_id, None, request.sha256, channel["now"], CHAIN_START, CHAIN_START[:16]),
            )


async def _keep_session(_connection: Any) -> None:
    return
