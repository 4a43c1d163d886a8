"""Project channels that are too large to be read whole: what is known about them, and recall by candidates.

A channel is large when `statistics.LARGE_MIN` live rows were counted in it and its embedding space has an index
(`memlane embeddings activate`). What is known of a project is asked again after 30 s, and kept for at most 1,000
projects; it may be a little old, which moves scores by less than their rounding.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from memlane.domain.memory import Kind, Similar
from memlane.domain.scoring import CENTERING_PRIOR, UNSEEN_SHARE, FusionWeights
from memlane.storage import statistics
from memlane.storage.pool import Connection, Pool
from memlane.storage.records import memory_of
from memlane.storage.statements import statement, statement_for_space
from memlane.usecases.ports import ScoredMemory, SpaceVector, Vector

KNOWN_SECONDS = 30.0
KNOWN_MAX = 1_000
NEAREST = 200
"""Candidates by vector."""
EF_SEARCH = "400"
"""How far the index is searched; docs/recall.md has what it finds of the exact ten."""
COVERED = 300
"""Candidates by words."""
SELECTIVE_ROWS = 3_000
"""Most rows that a recall's terms may bring in as candidates, by their known counts."""
UNKNOWN_COUNT = 500
"""What a term counts for whose rows are not known: the statistics hold every term of more."""


@dataclass(frozen=True, slots=True)
class LargeChannel:
    """What is known of a large channel's rows in one embedding space; ``counts`` has its frequent terms."""

    channel_id: str
    space_id: int
    dimensions: int
    live: int
    rows: int
    centre: Sequence[float]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Search:
    """What a recall looks for in a project."""

    project_id: str
    vectors: Sequence[SpaceVector]
    terms: Sequence[str]
    weights: FusionWeights
    kind: Kind | None
    min_score: float
    limit: int


class LargeChannels:
    """Knows the large channels, by project, and searches them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: OrderedDict[str, tuple[float, tuple[LargeChannel, ...]]] = OrderedDict()

    async def of(self, project_id: str) -> tuple[LargeChannel, ...]:
        """The project's channel, once for each space that it is indexed in; nothing when it is not large."""
        known = self._known.get(project_id)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_statistics"), project_id, statistics.LARGE_MIN)
        )
        found = tuple(
            LargeChannel(
                *(row["channel_id"], row["space_id"], row["dimensions"], row["live"], row["rows"], row["centre"]),
                dict(zip(row["terms"], row["counts"], strict=True)),
            )
            for row in rows
        )
        self._known[project_id] = (time.monotonic() + KNOWN_SECONDS, found)
        self._known.move_to_end(project_id)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found

    async def recall(self, channels: Sequence[LargeChannel], search: Search) -> list[ScoredMemory]:
        """The best live rows of the channel by fused score; while rows move between two spaces, each in its own."""
        best: dict[str, ScoredMemory] = {}
        for channel in channels:
            for one in await self._recall_in_space(channel, search):
                known = best.get(one.memory.id)
                if known is None or known.score < one.score:
                    best[one.memory.id] = one
        return sorted(best.values(), key=lambda one: (-one.score, one.memory.id))[: search.limit]

    async def _recall_in_space(self, channel: LargeChannel, search: Search) -> list[ScoredMemory]:
        vector = next((one.embedding for one in search.vectors if one.space_id == channel.space_id), None)
        share = channel.rows / (channel.rows + CENTERING_PRIOR)
        centre = [share * value for value in channel.centre]
        centred = None if vector is None else [value - middle for value, middle in zip(vector, centre, strict=True)]

        async def run(connection: Connection) -> list[ScoredMemory]:
            async with connection.transaction():
                await connection.execute(statement("widen_near_scan"), EF_SEARCH)
                rows = await connection.fetch(
                    statement_for_space("recall_large", channel.space_id, channel.dimensions),
                    *(search.project_id, channel.channel_id, centred, centre),
                    *(selective(search.terms, channel.counts), search.terms),
                    [channel.counts.get(term) for term in search.terms],
                    *(search.weights.dense, search.weights.lexical, search.weights.both),
                    *(search.kind, search.min_score, search.limit, NEAREST, channel.live, UNSEEN_SHARE, COVERED),
                )
            return [ScoredMemory(memory_of(row), row["score"]) for row in rows]

        return await self._pool.read(run)

    async def similar(
        self, channel: LargeChannel, project_id: str, kind: Kind, embedding: Vector, at_least: float,
        but_not: str | None, limit: int,
    ) -> tuple[Similar, ...]:  # fmt: skip
        """Close live neighbours, nearest first."""

        async def search(connection: Connection) -> tuple[Similar, ...]:
            async with connection.transaction():
                await connection.execute(statement("widen_near_scan"), EF_SEARCH)
                rows = await connection.fetch(
                    statement_for_space("find_similar_large", channel.space_id, channel.dimensions),
                    *(project_id, channel.channel_id, kind, embedding, at_least, but_not, limit),
                )
            return tuple(Similar(row["id"], min(1.0, max(0.0, row["score"]))) for row in rows)

        return await self._pool.read(search)


def selective(terms: Sequence[str], counts: dict[str, int]) -> list[str]:
    """The query's rarest terms: as many as bring in no more than `SELECTIVE_ROWS` rows, and at least one."""
    chosen: list[str] = []
    rows = 0
    for term in sorted(terms, key=lambda term: (counts.get(term, UNKNOWN_COUNT), term)):
        rows += counts.get(term, UNKNOWN_COUNT)
        if chosen and rows > SELECTIVE_ROWS:
            break
        chosen.append(term)
    return chosen
