"""The store on Postgres: implements `usecases.ports.Store` and `KeyStore`."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import uuid_utils

from memlane.domain.caller import Caller, KeyRecord
from memlane.domain.errors import StorageUnavailable
from memlane.domain.memory import Kind, Memory, Scope, Similar
from memlane.domain.scoring import CENTERING_PRIOR, UNSEEN_SHARE, FusionWeights
from memlane.domain.spaces import EmbeddingSpace
from memlane.observability import metrics
from memlane.storage.channel_write import LockedChannel, LostRaceForKey
from memlane.storage.large_channels import LargeChannels, Search
from memlane.storage.pool import TRIES, Connection, Pool
from memlane.storage.records import head_of, key_of, memories_of, memory_of, recall_page_of, stored_of
from memlane.storage.statements import statement
from memlane.usecases.ports import (
    Candidate,
    ChannelHead,
    ChannelRef,
    ChannelWrite,
    ExportedMemory,
    Hints,
    KeptAnswer,
    LedgerEntry,
    RecallPage,
    SpaceVector,
    StoredMemory,
    StreamStart,
    Vector,
)

T = TypeVar("T")

SIMILAR_MAX = 3
"""Most neighbours in a write's answer (rest.md)."""
PROVENANCE_MAX = 1000
"""Most ledger rows in one answer: the newest."""


class PostgresStore:
    """Every method is one round trip, but for writes, which hold one transaction.

    Args:
        pool: Lends connections.
        hints: Told of each write once it is committed.
        max_live_rows: Most live rows of a channel whose project has no limit of its own; None: any number.
    """

    def __init__(self, pool: Pool, hints: Hints, *, max_live_rows: int | None = None) -> None:
        self._pool = pool
        self._hints = hints
        self._max_live_rows = max_live_rows
        self._space_ids: dict[EmbeddingSpace, int] = {}
        self._large = LargeChannels(pool)

    async def in_channel(self, caller: Caller, channel: ChannelRef, act: Callable[[ChannelWrite], Awaitable[T]]) -> T:
        """See `Store.in_channel`."""

        async def locked(connection: Connection) -> tuple[T, LockedChannel]:
            write = await LockedChannel.lock(connection, caller, channel, self._max_live_rows)
            return await act(write), write

        for _ in range(TRIES):
            try:
                result, write = await self._pool.write(locked)
            except LostRaceForKey:
                metrics.STORAGE_RETRIES.labels("IdempotencyRace").inc()
                continue
            self._hints.committed(caller, write.head, write.changes)
            return result
        raise StorageUnavailable

    async def space_id(self, space: EmbeddingSpace) -> int:
        """See `Store.space_id`. A space's number never changes, so it is remembered."""
        known = self._space_ids.get(space)
        if known is not None:
            return known
        names = (space.provider, space.model, space.dimensions, space.fingerprint)

        async def ensure(connection: Connection) -> int:
            await connection.execute(statement("ensure_space"), *names)
            found: int = await connection.fetchval(statement("find_space"), *names)
            return found

        self._space_ids[space] = await self._pool.read(ensure)
        return self._space_ids[space]

    async def find_similar(
        self,
        channel: ChannelRef,
        kind: Kind,
        *,
        space_id: int,
        embedding: Vector,
        at_least: float,
        but_not: str | None,
    ) -> tuple[Similar, ...]:
        """See `Store.find_similar`."""
        return await self._similar(channel, kind, space_id, embedding, at_least, but_not, SIMILAR_MAX)

    async def _similar(
        self,
        channel: ChannelRef,
        kind: Kind,
        space_id: int,
        embedding: Vector,
        at_least: float,
        but_not: str | None,
        limit: int,
    ) -> tuple[Similar, ...]:
        large = await self._large.of(channel.project_id) if channel.scope == "project" else ()
        of_space = next((one for one in large if one.space_id == space_id), None)
        if of_space is not None:
            return await self._large.similar(of_space, channel.project_id, kind, embedding, at_least, but_not, limit)
        rows = await self._pool.read(
            lambda connection: connection.fetch(
                statement("find_similar"),
                channel.project_id,
                channel.scope,
                channel.user_id,
                kind,
                space_id,
                embedding,
                at_least,
                but_not,
                limit,
            )
        )
        return tuple(Similar(row["id"], min(1.0, max(0.0, row["score"]))) for row in rows)

    async def find_candidates(
        self,
        channel: ChannelRef,
        kind: Kind,
        *,
        space_id: int,
        embedding: Vector,
        at_least: float,
        but_not: str | None,
        limit: int,
    ) -> list[Candidate]:
        """See `Store.find_candidates`."""
        near = await self._similar(channel, kind, space_id, embedding, at_least, but_not, limit)
        if not near:
            return []
        ids = [one.id for one in near]
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_wordings"), channel.project_id, ids)
        )
        by_id = {row["id"]: row for row in rows}
        return [
            Candidate(one, row["seq"], row["content"], row["absorb_key"], tuple(row["absorbed"]))
            for one in ids
            if (row := by_id.get(one)) is not None
        ]

    async def find_answer(self, project_id: str, user_id: str, key: str) -> KeptAnswer | None:
        """See `Store.find_answer`."""
        row = await self._pool.read(
            lambda connection: connection.fetchrow(statement("find_answer"), project_id, user_id, key)
        )
        return None if row is None else KeptAnswer(row["request_sha256"], row["answer"])

    async def find(self, project_id: str, user_id: str, scopes: Sequence[Scope], memory_id: str) -> StoredMemory | None:
        """See `Store.find`."""
        row = await self._pool.read(
            lambda connection: connection.fetchrow(statement("find_memory"), project_id, user_id, scopes, memory_id)
        )
        return None if row is None else stored_of(row)

    async def heads(self, project_id: str, user_id: str, scopes: Sequence[Scope]) -> tuple[ChannelHead, ...]:
        """See `Store.heads`."""
        rows = await self._rows_of_every_channel("find_channels", project_id, user_id, scopes)
        return tuple(head_of(row) for row in rows)

    async def stream_heads(self, project_id: str, user_id: str, scopes: Sequence[Scope]) -> tuple[StreamStart, ...]:
        """See `Store.stream_heads`."""
        rows = await self._rows_of_every_channel("find_stream_heads", project_id, user_id, scopes)
        return tuple(StreamStart(head_of(row), row["cursor"], row["logged_out_at"]) for row in rows)

    async def _rows_of_every_channel(
        self, name: str, project_id: str, user_id: str, scopes: Sequence[Scope]
    ) -> list[dict[str, Any]]:
        async def ensure(connection: Connection) -> list[dict[str, Any]]:
            rows = await connection.fetch(statement(name), project_id, user_id, scopes)
            missing = set(scopes) - {row["scope"] for row in rows}
            if missing:
                await self._make_channels(connection, project_id, user_id, missing)
                rows = await connection.fetch(statement(name), project_id, user_id, scopes)
            return [dict(row) for row in rows]

        return await self._pool.read(ensure)

    async def _make_channels(self, connection: Connection, project_id: str, user_id: str, scopes: set[Scope]) -> None:
        for scope in sorted(scopes):
            owner = user_id if scope == "user" else ""
            await connection.execute(statement("create_channel"), project_id, str(uuid_utils.uuid7()), scope, owner)

    async def list_memories(
        self,
        project_id: str,
        user_id: str,
        scopes: Sequence[Scope],
        *,
        include_retired: bool,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> tuple[tuple[ChannelHead, ...], list[Memory]]:
        """See `Store.list_memories`."""
        at, memory_id = before or (None, None)

        async def snapshot(connection: Connection) -> tuple[tuple[ChannelHead, ...], list[Memory]]:
            values = (project_id, user_id, scopes, include_retired, at, memory_id, limit)
            rows = await connection.fetch(statement("list_snapshot"), *values)
            # The heads come first, one for each scope that has a channel.
            heads = [row for row in rows[: len(scopes)] if row["is_head"]]
            missing = set(scopes) - {row["channel_scope"] for row in heads}
            if missing:
                await self._make_channels(connection, project_id, user_id, missing)
                rows = await connection.fetch(statement("list_snapshot"), *values)
                heads = [row for row in rows[: len(scopes)] if row["is_head"]]
            return (
                tuple(head_of(row, id_column="channel_id", scope_column="channel_scope") for row in heads),
                memories_of(rows[len(heads) :]),
            )

        return await self._pool.read(snapshot)

    async def recall(
        self,
        project_id: str,
        user_id: str,
        scopes: Sequence[Scope],
        *,
        vectors: Sequence[SpaceVector],
        terms: Sequence[str],
        weights: FusionWeights,
        kind: Kind | None,
        min_score: float,
        limit: int,
    ) -> RecallPage:
        """See `Store.recall`. A large project channel is searched by its index, beside the user's own rows."""
        large = await self._large.of(project_id) if "project" in scopes else ()
        search = Search(project_id, vectors, terms, weights, kind, min_score, limit)
        if not large:
            return await self._recall_exactly(user_id, scopes, search)
        found = await self._large.recall(large, search)
        if "user" in scopes:
            own = await self._recall_exactly(user_id, ["user"], search)
            found = sorted([*found, *own.found], key=lambda one: (-one.score, one.memory.id))[:limit]
        return RecallPage(found)

    async def _recall_exactly(self, user_id: str, scopes: Sequence[Scope], search: Search) -> RecallPage:
        present, earlier = (*search.vectors, None, None)[:2]
        weights = search.weights
        rows = await self._pool.read(
            lambda connection: connection.fetch(
                statement("recall"),
                *(search.project_id, user_id, scopes),
                *((None, None) if present is None else (present.space_id, present.embedding)),
                *(search.terms, weights.dense, weights.lexical, CENTERING_PRIOR),
                *(search.kind, search.min_score, search.limit, UNSEEN_SHARE),
                *((None, None) if earlier is None else (earlier.space_id, earlier.embedding)),
                weights.both,
            )
        )
        return recall_page_of(rows)

    async def known_terms(
        self, project_id: str, user_id: str, scopes: Sequence[Scope], spellings: Sequence[str]
    ) -> dict[str, int]:
        """See `Store.known_terms`."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_known_terms"), project_id, user_id, scopes, spellings)
        )
        return {row["term"]: row["df"] for row in rows}

    async def present_ids(self, project_id: str, memory_ids: Sequence[str]) -> frozenset[str]:
        """See `Store.present_ids`."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("present_ids"), project_id, memory_ids)
        )
        return frozenset(row["id"] for row in rows)

    async def count_memories(self, project_id: str) -> int:
        """How many rows a project has, live and retired."""
        counted: int = await self._pool.read(
            lambda connection: connection.fetchval(statement("count_memories"), project_id)
        )
        return counted

    async def export_page(self, project_id: str, after: str | None, limit: int) -> list[ExportedMemory]:
        """See `Store.export_page`."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("export_page"), project_id, after, limit)
        )
        return [ExportedMemory(memory_of(row), row["user_id"]) for row in rows]

    async def provenance(
        self, project_id: str, user_id: str, scopes: Sequence[Scope], memory_id: str
    ) -> list[LedgerEntry]:
        """See `Store.provenance`."""
        names = (project_id, user_id, scopes, memory_id)
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_provenance"), *names, PROVENANCE_MAX)
        )
        return [LedgerEntry(**dict(row.items())) for row in reversed(rows)]

    async def end_stream_sessions(self, project_id: str, user_id: str) -> None:
        """See `Store.end_stream_sessions`."""
        await self._pool.read(
            lambda connection: connection.execute(statement("end_stream_sessions"), project_id, user_id)
        )

    async def find_key(self, short: str) -> KeyRecord | None:
        """See `KeyStore.find_key`."""
        row = await self._pool.read(lambda connection: connection.fetchrow(statement("find_key"), short))
        return None if row is None else key_of(row)

    async def ping(self) -> None:
        """See `Store.ping`."""
        await self._pool.read(lambda connection: connection.fetchval("select 1"))
