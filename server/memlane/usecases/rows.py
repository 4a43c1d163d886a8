"""What the use cases exchange with their ports: rows, pages and tickets, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memlane.domain.memory import Memory, Position, Scope
from memlane.domain.spaces import EmbeddingSpace

Vector = list[float]
"""A unit-length (L2 norm 1) embedding; adapters normalise."""


@dataclass(frozen=True, slots=True)
class ChannelRef:
    """Names one channel: a project's user, or the project itself (``user_id`` is then empty)."""

    project_id: str
    scope: Scope
    user_id: str


@dataclass(frozen=True, slots=True)
class ChannelHead:
    """A channel's present position and the code of its stream topic."""

    id: str
    scope: Scope
    position: Position
    join_code: str


@dataclass(frozen=True, slots=True)
class StreamStart:
    """What a join token says of a channel: its head, the seq that it had 60 s ago, and the user's latest log-out."""

    head: ChannelHead
    cursor: int
    logged_out_at: datetime | None


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A memory's text with its vector."""

    content: str
    space_id: int
    embedding: Vector


@dataclass(frozen=True, slots=True)
class Wording:
    """A memory's text with all that is derived from it, made before the channel's lock is taken."""

    content: str
    absorb_key: bytes | None
    canonical_version: int
    terms: Sequence[str]
    terms_version: int
    space_id: int
    embedding: Vector


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's idempotency key and the hash of the request that it stands for."""

    key: str
    request_sha256: bytes


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The first answer to an idempotency key, as JSON, and the hash of its request."""

    request_sha256: bytes
    answer: str


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A row: the memory, the seq of its latest change, what it is absorbed by, and the salt of its ledger's hashes."""

    memory: Memory
    seq: int
    absorb_key: bytes | None = None
    wording_salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A close live neighbour of a save, with every wording that it absorbed."""

    id: str
    seq: int
    content: str
    absorb_key: bytes | None
    absorbed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoredMemory:
    """A recalled memory and its confidence, 0 to 1."""

    memory: Memory
    score: float


@dataclass(frozen=True, slots=True)
class SpaceVector:
    """A query's vector in one embedding space."""

    space_id: int
    embedding: Vector


@dataclass(frozen=True, slots=True)
class RecallPage:
    """The best live rows, highest score first, and the query's terms that no visible memory has."""

    found: list[ScoredMemory]
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """Rows that changed since a position, in order of seq; ``complete`` when they reach the head."""

    position: Position
    rows: list[StoredMemory]
    complete: bool


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """A memory and the user whose it is; empty in the project scope."""

    memory: Memory
    user_id: str


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One write as the ledger tells it. Hashes are salted SHA-256 of the wording before and after, in hex."""

    operation: str
    absorbed_by: str | None
    lane: str
    key_id: str | None
    run: str
    source_type: str
    source_id: str
    source_trust: str
    triggered_by: str
    request_id: str
    written_at: datetime
    seq: int
    before_sha256: str | None
    after_sha256: str | None


@dataclass(frozen=True, slots=True)
class StreamTicket:
    """A join token and the code of the topic that it opens."""

    token: str
    join_code: str


@dataclass(frozen=True, slots=True)
class StaleRow:
    """A row whose absorb key or terms are of an older version; ``user_id`` is empty in the project scope."""

    project_id: str
    id: str
    scope: Scope
    user_id: str
    content: str
    seq: int
    worded_at: datetime


@dataclass(frozen=True, slots=True)
class ForeignRow:
    """A row of another embedding space than the active one."""

    project_id: str
    id: str
    content: str
    seq: int


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """An embedding space and how many rows it has."""

    id: int
    space: EmbeddingSpace
    rows: int
    active: bool
    indexed: bool
