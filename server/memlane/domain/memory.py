"""A memory: a short durable statement about a user or a project, and the outcome of writing one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["topical", "episodic", "operational"]
Scope: TypeAlias = Literal["user", "project"]
AbsorbedBy: TypeAlias = Literal["form", "judge"]

CONTENT_MAX = 8192
"""Longest content and query, in code points (rest.md)."""
THREAD_IDS_MAX = 100
"""Most source threads of one memory; of a longer union the newest 100 stay (rest.md)."""
THREAD_ID_MAX = 256
"""Longest source thread id, in characters (rest.md)."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as every door shows it. Live while ``invalidated_at`` is None. Times are in UTC."""

    id: str
    kind: Kind
    scope: Scope
    content: str
    source_thread_ids: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    invalidated_at: datetime | None = None
    recalled_at: datetime | None = None

    @property
    def live(self) -> bool:
        """Whether recall and the default list show it."""
        return self.invalidated_at is None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a channel's feed: dense ``seq`` within one ``epoch``."""

    epoch: str
    seq: int


@dataclass(frozen=True, slots=True)
class Draft:
    """What a caller asks to be remembered; already validated by the door. Source threads as sent, repeats and all."""

    content: str
    kind: Kind
    scope: Scope = "user"
    source_thread_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Similar:
    """A close live neighbour that was not proven to say the same. ``score`` is the cosine, 0 to 1."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write did: the truth, as the answer and the ledger tell it."""

    memory: Memory
    position: Position
    absorbed: bool = False
    absorbed_by: AbsorbedBy | None = None
    similar: tuple[Similar, ...] = field(default=())
    retired_id: str | None = None


def united_threads(present: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """The union of source threads in order of arrival; past 100 the newest stay.

    A thread that is named again counts as new: it moves to the end.
    """
    again = set(added)
    union = [*(thread for thread in present if thread not in again), *dict.fromkeys(added)]
    return tuple(union[-THREAD_IDS_MAX:])


def without_repeats(thread_ids: Sequence[str]) -> tuple[str, ...]:
    """The ids in order, each once."""
    return tuple(dict.fromkeys(thread_ids))
