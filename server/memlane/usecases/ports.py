"""What the use cases need from outside. `storage`, `embedding` and `auth` implement these."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from memlane.domain.caller import Caller, KeyRecord
from memlane.domain.entitlement import Entitlement
from memlane.domain.memory import AbsorbedBy, Kind, Memory, Position, Scope, Similar
from memlane.domain.rates import Charge
from memlane.domain.scoring import FusionWeights
from memlane.domain.spaces import EmbeddingSpace
from memlane.domain.stream import ChannelKey, JoinClaims, RowChange, SessionState
from memlane.usecases.model_ports import Embedder, Judge, Reranker
from memlane.usecases.rows import (
    Candidate,
    ChangesPage,
    ChannelHead,
    ChannelRef,
    EmbeddedText,
    ExportedMemory,
    ForeignRow,
    Idempotency,
    KeptAnswer,
    LedgerEntry,
    RecallPage,
    ScoredMemory,
    SpaceStatus,
    SpaceVector,
    StaleRow,
    StoredMemory,
    StreamStart,
    StreamTicket,
    Vector,
    Wording,
)
from memlane.usecases.upkeep_port import Upkeep

__all__ = [
    "Candidate",
    "ChangesPage",
    "ChannelHead",
    "ChannelRef",
    "ChannelWrite",
    "Clock",
    "EmbeddedText",
    "Embedder",
    "EntitlementSource",
    "ExportedMemory",
    "ForeignRow",
    "Hints",
    "Idempotency",
    "JoinTokens",
    "Judge",
    "KeptAnswer",
    "KeyStore",
    "LedgerEntry",
    "RateLimiter",
    "RecallMarks",
    "RecallPage",
    "Reranker",
    "ScoredMemory",
    "SecretScanner",
    "Services",
    "SpaceStatus",
    "SpaceVector",
    "StaleRow",
    "Store",
    "StoredMemory",
    "StreamStart",
    "StreamStore",
    "StreamTicket",
    "Upkeep",
    "Vector",
    "Wording",
]

T = TypeVar("T")


class Clock(Protocol):
    """The time, so that a test can move it."""

    def now(self) -> datetime:
        """The present moment, timezone-aware, in UTC."""
        ...


class ChannelWrite(Protocol):
    """A write transaction that holds its channel's lock. Each change takes the next seq and a ledger row."""

    @property
    def epoch(self) -> str:
        """The channel's epoch."""
        ...

    @property
    def seq(self) -> int:
        """The channel's seq after the latest change of this transaction."""
        ...

    async def find_twin(
        self, kind: Kind, absorb_key: bytes | None, *, but_not: str | None = None
    ) -> StoredMemory | None:
        """The live memory of this kind that says the same; None for a key of None."""
        ...

    async def find(self, memory_id: str) -> StoredMemory | None:
        """A row of this channel, live or retired."""
        ...

    async def insert(
        self,
        memory_id: str,
        kind: Kind,
        wording: Wording,
        source_thread_ids: Sequence[str],
        created_at: datetime | None = None,
    ) -> StoredMemory:
        """Make a new row; ``created_at`` only for one that comes from elsewhere.

        Raises:
            QuotaExceeded: The channel has as many live rows as it may.
        """
        ...

    async def absorb(
        self, twin: StoredMemory, wording: Wording, source_thread_ids: Sequence[str], absorbed_by: AbsorbedBy
    ) -> StoredMemory:
        """Give the twin the newer wording; the earlier one stays as a revision."""
        ...

    async def retire(self, target: StoredMemory, *, superseded_by: str | None = None) -> StoredMemory:
        """Retire a live row."""
        ...

    async def restore(self, target: StoredMemory) -> StoredMemory:
        """Make a retired row live again. Raises as `insert`."""
        ...

    async def keep_absorb_key(self, memory_id: str, absorb_key: bytes | None) -> None:
        """Give a retired row that came without one its absorb key; no change that a reader could see."""
        ...

    async def find_answer(self, key: str) -> KeptAnswer | None:
        """The answer kept for this user's idempotency key, if it is younger than 24 h."""
        ...

    async def keep_answer(self, idempotency: Idempotency, memory_id: str, answer: str) -> None:
        """Keep an answer with the write. Losing a race for the key runs the transaction again."""
        ...


class Store(Protocol):
    """The memories and all that belongs to them.

    Every call ends within its time limits.

    Raises (from each call):
        StorageUnavailable: The database is down, slow or out of connections.
    """

    async def in_channel(self, caller: Caller, channel: ChannelRef, act: Callable[[ChannelWrite], Awaitable[T]]) -> T:
        """Run ``act`` under the channel's lock in one transaction; it may run again after a lost race."""
        ...

    async def space_id(self, space: EmbeddingSpace) -> int:
        """The number of an embedding space, made on first sight."""
        ...

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
        """At most 3 close live neighbours, nearest first."""
        ...

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
        """Close live neighbours with all that they absorbed, nearest first."""
        ...

    async def find_answer(self, project_id: str, user_id: str, key: str) -> KeptAnswer | None:
        """As `ChannelWrite.find_answer`, before any work is done."""
        ...

    async def find(self, project_id: str, user_id: str, scopes: Sequence[Scope], memory_id: str) -> StoredMemory | None:
        """A row that this user can see in these scopes, live or retired."""
        ...

    async def heads(self, project_id: str, user_id: str, scopes: Sequence[Scope]) -> tuple[ChannelHead, ...]:
        """The channels of these scopes, made where they do not exist yet."""
        ...

    async def stream_heads(self, project_id: str, user_id: str, scopes: Sequence[Scope]) -> tuple[StreamStart, ...]:
        """As `heads`, with what a join token says beside."""
        ...

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
        """Heads and rows of one snapshot, newest first."""
        ...

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
        """The best live rows by fused score; rows of a space without a vector are found by their words alone."""
        ...

    async def known_terms(
        self, project_id: str, user_id: str, scopes: Sequence[Scope], spellings: Sequence[str]
    ) -> dict[str, int]:
        """Which spellings stand in a live memory that the user can see, and in how many."""
        ...

    async def present_ids(self, project_id: str, memory_ids: Sequence[str]) -> frozenset[str]:
        """Which of these ids the project has already, live or retired."""
        ...

    async def export_page(self, project_id: str, after: str | None, limit: int) -> list[ExportedMemory]:
        """A project's memories of every user in order of id, live and retired."""
        ...

    async def provenance(
        self, project_id: str, user_id: str, scopes: Sequence[Scope], memory_id: str
    ) -> list[LedgerEntry]:
        """The ledger of a memory that this user can see in these scopes, the newest 1,000, oldest first."""
        ...

    async def end_stream_sessions(self, project_id: str, user_id: str) -> None:
        """End every stream session of the user that began before now."""
        ...

    async def ping(self) -> None:
        """Ask the database for an answer."""
        ...


class KeyStore(Protocol):
    """Runtime keys by their public short id."""

    async def find_key(self, short: str) -> KeyRecord | None:
        """The key, whatever its state; None when there is none."""
        ...


class EntitlementSource(Protocol):
    """What an organization is entitled to, by license or by plan."""

    async def resolve(self, organization_id: str, organization: str) -> Entitlement:
        """The entitlement of an organization.

        Raises:
            EntitlementUnresolved: It cannot be told now: deny.
        """
        ...


class SecretScanner(Protocol):
    """Finds credentials in a text. Pure: it asks nobody, keeps nothing and logs nothing."""

    def find(self, text: str, *, is_id: bool = False) -> str | None:
        """The kind of the first credential in a text, for people; None when there is none.

        Of ids, which may be drawn at random, only what none is by chance counts; several can stand on a line each.
        """
        ...


class RateLimiter(Protocol):
    """Counts what subjects use up. Never fails: without its store it counts for itself."""

    async def charge(self, charges: Sequence[Charge]) -> tuple[Charge, float] | None:
        """Charge all or none; the charge that is too much, and the seconds to wait, or None when all are allowed."""
        ...


class RecallMarks(Protocol):
    """Marks memories as recalled, off the request path."""

    def mark(self, project_id: str, memory_ids: Sequence[str], at: datetime) -> None:
        """Note the recall; never waits, never fails. A full queue drops the mark and counts it."""
        ...


class JoinTokens(Protocol):
    """Signs what lets a browser join its own topics."""

    def mint(self, caller: Caller, start: StreamStart, *, now: datetime) -> StreamTicket:
        """A token for one channel, from its cursor on."""
        ...

    def verify(self, token: str) -> JoinClaims:
        """The claims of a token of ours; how old it may be is not decided here.

        Raises:
            TokenRejected: It is not one of ours.
        """
        ...


class StreamStore(Protocol):
    """What the live stream reads. Every call ends within the store's time limits.

    Raises (from each call):
        StorageUnavailable: The database does not answer.
    """

    async def session_states(self, sessions: Sequence[JoinClaims]) -> list[SessionState]:
        """The state of each session, in order."""
        ...

    async def begin_session(self, claims: JoinClaims) -> None:
        """Note the first use of a token."""
        ...

    async def find_channel(
        self, project_id: str, scope: Scope, user_id: str, join_code: str, since: datetime
    ) -> tuple[ChannelHead, int] | None:
        """One of the user's own channels by its topic's code, and the seq that it had at ``since``."""
        ...

    async def changes_since(self, key: ChannelKey, since: int, limit: int) -> ChangesPage:
        """The changed rows after a position in order of seq, and the head of the same snapshot."""
        ...

    async def visible_ids(self, key: ChannelKey, since: int, at_most: int) -> frozenset[str] | None:
        """None when no more than ``at_most`` rows changed since; else the ids of the rows that a list shows."""
        ...

    async def positions(self, keys: Sequence[ChannelKey]) -> dict[str, Position]:
        """The heads of channels, by channel id."""
        ...


class Hints(Protocol):
    """Tells every gateway that channels moved. Never waits, never fails: what is lost, a sweep heals."""

    def committed(self, caller: Caller, channel: ChannelHead, changes: Sequence[RowChange]) -> None:
        """A write was committed and its answer is under way to the client."""
        ...

    def shown(self, project_id: str, heads: Sequence[ChannelHead]) -> None:
        """A list that shows these heads is under way to a client."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """All that the use cases work with, handed over by `app`."""

    store: Store
    keys: KeyStore
    entitlements: EntitlementSource
    embedder: Embedder
    recalls: RecallMarks
    join_tokens: JoinTokens
    streams: StreamStore
    hints: Hints
    secrets: SecretScanner
    clock: Clock
    judge: Judge | None = None
    reranker: Reranker | None = None
    earlier_embedder: Embedder | None = None
    """The model before a change of models: it embeds queries for the rows that are not re-embedded yet."""
