"""A project channel of 200,000 memories beside one of 2,000: is the answer the exact one, and how long does it take?

The memories are invented. 2,000 sentences have the model's own vectors; every memory has one of these, turned at random
by about 27 degrees, and its sentence's words with three rarer ones, drawn so that a few are frequent and most are
rare. A query is a memory turned again by as much, with two of its sentence's words and one of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg
import numpy as np
import uuid_utils
from numpy.typing import NDArray

from memlane.bench.corpus import sentence
from memlane.bench.deployment import BenchFailed
from memlane.domain.scoring import CENTERING_PRIOR, UNSEEN_SHARE, fusion_weights
from memlane.domain.terms import TERMS_VERSION, index_terms
from memlane.embedding.local import LocalEmbedder
from memlane.storage.large_channels import COVERED, EF_SEARCH, NEAREST, selective
from memlane.storage.migrate import migrate
from memlane.storage.near_index import build_near_index
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.statements import statement, statement_for_space
from memlane.storage.statistics import count_due
from memlane.storage.store import PostgresStore
from memlane.storage.tenants import Tenants
from memlane.usecases.ports import SpaceVector
from memlane.usecases.silent_hints import SilentHints

Vectors = NDArray[np.float32]

BASES = 2_000
TURN = 0.5
OWN_WORDS = 50_000
RARE_KIND = 400
"""One memory in so many is operational, for the question whether a filter starves a result."""
_CHUNK = 1_000
_SEED_CHANNEL = "insert into channels (project_id, id, scope, user_id, seq) values ($1, $2, 'project', '', $3)"
_SEED_MEMORY = """
insert into memories (project_id, channel_id, id, scope, kind, content, created_at, updated_at, seq,
                      canonical_version, terms, terms_version, space_id, embedding)
values ($1, $2, $3, 'project', $4, $5, $6, $6, $7, 0, $8, $9, $10, $11::real[]::halfvec)
"""


@dataclass(frozen=True, slots=True)
class Query:
    """A question as the store gets it."""

    vector: list[float]
    terms: list[str]


@dataclass(frozen=True, slots=True)
class Channel:
    """A seeded project channel."""

    project_id: str
    channel_id: str
    rows: int
    queries: list[Query]


@dataclass(frozen=True, slots=True)
class Measured:
    """What `measure` found. Times are of the store's recall alone, without the query's embedding."""

    rows: int
    p50_ms: float
    p95_ms: float
    small_rows: int
    small_p50_ms: float
    small_p95_ms: float
    nearest_recall: float
    answer_recall: float
    filtered: int
    build_seconds: float
    count_seconds: float
    plans: dict[str, str]


async def measure(dsn: str, rows: int, small: int, queries: int, on_rows: Callable[[int], None]) -> Measured:
    """Seed two project channels in an empty database, index them, and ask both.

    Args:
        dsn: An empty database.
        rows: Memories of the large channel.
        small: Memories of the small one.
        queries: Questions to each.
        on_rows: Told how many rows were added.
    """
    await migrate(dsn)
    embedder = LocalEmbedder(time_limit=120.0, max_queue=10_000)
    pool = Pool(dsn, PoolLimits(max_size=4))
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=600)
    try:
        store = PostgresStore(pool, SilentHints())
        space_id = await store.space_id(embedder.space)
        bases = np.array(await embedder.embed_documents([sentence(n) for n in range(BASES)]), dtype=np.float32)
        large = await _seed(connection, pool, "scale-large", space_id, rows, queries, bases, on_rows)
        little = await _seed(connection, pool, "scale-small", space_id, small, queries, bases, on_rows)
        began = time.perf_counter()
        await build_near_index(dsn, space_id, embedder.space.dimensions)
        built = time.perf_counter()
        await connection.execute("vacuum analyze")
        counting = time.perf_counter()
        await count_due(pool)
        counted = time.perf_counter()
        times = sorted(await _times(store, space_id, large))
        small_times = sorted(await _times(store, space_id, little))
        filtered = await store.recall(
            large.project_id, "u1", ["project"],
            vectors=[SpaceVector(space_id, large.queries[0].vector)], terms=large.queries[0].terms,
            weights=fusion_weights(has_vector=True, has_terms=True), kind="operational", min_score=0.0, limit=20,
        )  # fmt: skip
        nearest, answers = await _recalls(connection, store, space_id, embedder.space.dimensions, large)
        return Measured(
            rows, *_percentiles(times), small, *_percentiles(small_times), nearest, answers, len(filtered.found),
            built - began, counted - counting,
            await _plans(connection, space_id, embedder.space.dimensions, large, little),
        )  # fmt: skip
    finally:
        await connection.close()
        await pool.aclose()
        await embedder.aclose()


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    return 1000 * seconds[len(seconds) // 2], 1000 * seconds[int(0.95 * (len(seconds) - 1))]


async def _seed(
    connection: "asyncpg.Connection[asyncpg.Record]",
    pool: Pool,
    slug: str,
    space_id: int,
    rows: int,
    queries: int,
    bases: Vectors,
    on_rows: Callable[[int], None],
) -> Channel:
    project = await Tenants(pool).ensure_project("bench", slug)
    channel_id, now, chance = str(uuid_utils.uuid7()), datetime.now(UTC), np.random.default_rng(rows)
    await connection.execute(_SEED_CHANNEL, project.id, channel_id, rows)
    words = [index_terms(sentence(number)) for number in range(BASES)]
    asked = set(map(int, chance.choice(rows, size=queries, replace=False)))
    found: list[Query] = []
    for start in range(0, rows, _CHUNK):
        numbers = range(start, min(rows, start + _CHUNK))
        values = []
        for number in numbers:
            base = int(chance.integers(BASES))
            vector = _turned(bases[base], chance)
            own = [f"w{min(int(rank), OWN_WORDS)}" for rank in chance.zipf(1.3, size=3)]
            kind = "operational" if number % RARE_KIND == 0 else "topical"
            if number in asked:
                picked = [words[base][int(place)] for place in chance.integers(len(words[base]), size=2)]
                found.append(Query(list(map(float, _turned(vector, chance))), list(dict.fromkeys([*picked, own[0]]))))
            values.append(
                (
                    *(project.id, channel_id, str(uuid_utils.uuid7()), kind, f"{sentence(base)} {number}", now),
                    *(number + 1, list(dict.fromkeys([*words[base], *own])), TERMS_VERSION, space_id),
                    list(map(float, vector)),
                )
            )
        await connection.executemany(_SEED_MEMORY, values)
        on_rows(len(values))
    return Channel(project.id, channel_id, rows, found)


def _turned(vector: Vectors, chance: np.random.Generator) -> Vectors:
    turn = chance.standard_normal(len(vector))
    turned: Vectors = vector + TURN * turn / np.linalg.norm(turn)
    return turned / np.linalg.norm(turned)


async def _times(store: PostgresStore, space_id: int, channel: Channel) -> list[float]:
    seconds = []
    for turn in range(2):
        for query in channel.queries:
            began = time.perf_counter()
            page = await store.recall(
                channel.project_id, "u1", ["user", "project"],
                vectors=[SpaceVector(space_id, query.vector)], terms=query.terms,
                weights=fusion_weights(has_vector=True, has_terms=True), kind=None, min_score=0.0, limit=10,
            )  # fmt: skip
            if turn:  # The first turn warms the caches.
                seconds.append(time.perf_counter() - began)
            if not page.found:
                raise BenchFailed("a recall found nothing")
    return seconds


async def _recalls(
    connection: "asyncpg.Connection[asyncpg.Record]",
    store: PostgresStore,
    space_id: int,
    dimensions: int,
    channel: Channel,
) -> tuple[float, float]:
    """How much of the exact ten nearest the index finds, and of the exact ten best answers the store."""
    weights = fusion_weights(has_vector=True, has_terms=True)
    near, answers = [], []
    for query in channel.queries:
        page = await store.recall(
            channel.project_id, "u1", ["project"],
            vectors=[SpaceVector(space_id, query.vector)], terms=query.terms,
            weights=weights, kind=None, min_score=0.0, limit=10,
        )  # fmt: skip
        exact = await connection.fetch(
            statement("recall"),
            *(channel.project_id, "u1", ["project"], space_id, query.vector, query.terms),
            *(weights.dense, weights.lexical, CENTERING_PRIOR, None, 0.0, 10, UNSEEN_SHARE, None, None, weights.both),
        )
        answers.append(_share([row["id"] for row in exact], [one.memory.id for one in page.found]))
        values = (channel.project_id, channel.channel_id, "topical", query.vector, -1.0, None, 10)
        by_index = statement_for_space("find_similar_large", space_id, dimensions)
        async with connection.transaction():
            await connection.execute(statement("widen_near_scan"), EF_SEARCH)
            found = await connection.fetch(by_index, *values)
        exactly = await connection.fetch(
            statement("find_similar"),
            *(channel.project_id, "project", "", "topical", space_id, query.vector, -1.0, None, 10),
        )
        near.append(_share([row["id"] for row in exactly], [row["id"] for row in found]))
    return float(np.mean(near)), float(np.mean(answers))


def _share(wanted: Sequence[str], found: Sequence[str]) -> float:
    return len(set(wanted) & set(found)) / len(wanted)


async def _plans(
    connection: "asyncpg.Connection[asyncpg.Record]", space_id: int, dimensions: int, large: Channel, little: Channel
) -> dict[str, str]:
    """EXPLAIN ANALYZE of each statement of a recall."""
    weights, query = fusion_weights(has_vector=True, has_terms=True), large.queries[0]
    counts = {row["term"]: row["count"] for row in await _frequent(connection, large)}
    centre = [0.0] * dimensions
    plans = {}
    exact = (
        *(little.project_id, "u1", ["user", "project"], space_id, query.vector, query.terms),
        *(weights.dense, weights.lexical, CENTERING_PRIOR, None, 0.0, 10, UNSEEN_SHARE, None, None, weights.both),
    )
    plans["recall"] = await _plan(connection, statement("recall"), exact)
    async with connection.transaction():
        await connection.execute(statement("widen_near_scan"), EF_SEARCH)
        near = (
            *(large.project_id, large.channel_id, query.vector, centre, selective(query.terms, counts), query.terms),
            [counts.get(term) for term in query.terms],
            *(weights.dense, weights.lexical, weights.both, None, 0.0, 10, NEAREST, large.rows, UNSEEN_SHARE, COVERED),
        )
        plans["recall_large"] = await _plan(connection, statement_for_space("recall_large", space_id, dimensions), near)
        similar = (large.project_id, large.channel_id, "topical", query.vector, 0.5, None, 3)
        plans["find_similar_large"] = await _plan(
            connection, statement_for_space("find_similar_large", space_id, dimensions), similar
        )
    spellings = (little.project_id, "u1", ["user", "project"], [f"w{number}" for number in range(450)])
    plans["find_known_terms"] = await _plan(connection, statement("find_known_terms"), spellings)
    return plans


async def _frequent(connection: "asyncpg.Connection[asyncpg.Record]", channel: Channel) -> "list[asyncpg.Record]":
    return await connection.fetch(
        "select t.term, t.count from channel_statistics s, unnest(s.terms, s.counts) as t (term, count) "
        "where s.channel_id = $1",
        channel.channel_id,
    )


async def _plan(connection: "asyncpg.Connection[asyncpg.Record]", sql: str, values: Sequence[object]) -> str:
    rows = await connection.fetch(f"explain (analyze, costs off, buffers off) {sql}", *values)
    return "\n".join(row[0][:160] for row in rows)
