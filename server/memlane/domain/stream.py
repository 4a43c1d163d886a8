"""The live stream's own objects: what a token is bound to, whether its session may go on, and hints."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from memlane.domain.decisions import Allowed, Decision, Denied
from memlane.domain.grant import Grant
from memlane.domain.lane import LaneMode
from memlane.domain.memory import Memory

UNUSED_SECONDS = 120
"""A token that is not used within this time of its making is dead (realtime.md)."""
CURSOR_SECONDS = 60
"""How far before a token's making its cursor lies: the list is fetched at the same time (realtime.md)."""

Refusal: TypeAlias = Literal[
    "key_revoked", "lane_off", "not_entitled", "logged_out", "session_ended", "token_unused_too_long", "other_epoch"
]


@dataclass(frozen=True, slots=True)
class JoinClaims:
    """What a join token is bound to.

    Attributes:
        organization: The organization, 1 to 128 of letters, digits, ``.``, ``_``, ``:`` and ``-``; so are
            project, key_id, lane, join_code, epoch and session_id.
        project: The project.
        user: The app user's id, 1 to 256 characters, opaque.
        scope: Which of the two channels this token may join.
        grant: The grant of the call that asked for it.
        key_id: The runtime key of that call.
        lane: That key's lane.
        join_code: The code in the channel's topic.
        epoch: The channel's epoch when the token was made.
        cursor: The channel's seq to read from, 0 to 2**63 - 1.
        issued_at: When it was made, UTC, in whole seconds.
        session_id: The stream session, unique to this token.
        logged_out_at: The user's latest log-out when it was made, UTC; None: there was none.
    """

    organization: str
    project: str
    user: str
    scope: Literal["user", "project"]
    grant: Grant
    key_id: str
    lane: str
    join_code: str
    epoch: str
    cursor: int
    issued_at: datetime
    session_id: str
    logged_out_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """What the database says of a token's session. ``epoch`` is None when the channel is gone."""

    key_known: bool
    key_revoked_at: datetime | None
    key_expires_at: datetime | None
    lane_mode: LaneMode | None
    logged_out_at: datetime | None
    epoch: str | None
    first_used_at: datetime | None
    organization_id: str | None
    organization: str | None


def decide_session(claims: JoinClaims, state: SessionState, *, session_hours: int, now: datetime) -> Decision:
    """Whether the session may begin or go on; the entitlement is decided apart.

    Args:
        claims: Of the token.
        state: What the database says.
        session_hours: How long a session serves reconnects after its first use.
        now: The present moment, aware.
    """
    refusal: Refusal | None = None
    expired = state.key_expires_at is not None and now >= state.key_expires_at
    if not state.key_known or state.key_revoked_at is not None or expired:
        refusal = "key_revoked"
    elif state.lane_mode is None or state.lane_mode is LaneMode.OFF:
        refusal = "lane_off"
    elif state.epoch != claims.epoch:
        refusal = "other_epoch"
    elif _has_logged_out(claims, state):
        refusal = "logged_out"
    elif state.first_used_at is None:
        if now - claims.issued_at > timedelta(seconds=UNUSED_SECONDS):
            refusal = "token_unused_too_long"
    elif now - state.first_used_at > timedelta(hours=session_hours):
        refusal = "session_ended"
    return Allowed() if refusal is None else Denied(refusal)


def _has_logged_out(claims: JoinClaims, state: SessionState) -> bool:
    """Whether the user has logged out since the token was made: by the database's own word, whatever the clocks say."""
    latest, known = state.logged_out_at, claims.logged_out_at
    return latest is not None and (known is None or latest > known)


@dataclass(frozen=True, slots=True)
class ChannelKey:
    """A channel's place: tenant first."""

    project_id: str
    channel_id: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of a row that was committed: its seq and what the row is now."""

    seq: int
    created: bool
    memory: Memory


@dataclass(frozen=True, slots=True)
class Hint:
    """What one process tells the others: a channel moved, or an answer that shows it is under way.

    Attributes:
        key: The channel.
        epoch: Its epoch.
        seq: The change's seq; of a pure fence, the head that the answer shows.
        payload: The change's event, or None: then it is read from the table.
        fence: Whether an answer that may overwrite newer deltas is under way to a client (realtime.md, Fence).
        moved: Whether the channel moved to ``seq``; False for the answer of a list.
        sent_at: Wall-clock time of the commit, in seconds since 1970; 0 where it is unknown.
    """

    key: ChannelKey
    epoch: str
    seq: int
    payload: Mapping[str, Any] | None = None
    fence: bool = False
    moved: bool = True
    sent_at: float = 0.0
