"""A lane: the stream of writers that a runtime key belongs to, how far they are trusted, what they may do."""

from dataclasses import dataclass
from enum import StrEnum

from memlane.domain.decisions import Allowed, Decision, Denied
from memlane.domain.errors import LaneOff, LaneReadOnly


class Trust(StrEnum):
    """How far what this lane writes is to be believed. It goes into the ledger with each write."""

    TRUSTED = "trusted"
    INTERNAL = "internal"
    UNTRUSTED = "untrusted"


class LaneMode(StrEnum):
    """What keys of this lane may do."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a project. The name is what people and the ledger read."""

    id: str
    name: str
    trust: Trust
    mode: LaneMode


def writes_untrusted(trust: Trust, mode: LaneMode) -> bool:
    """Whether a lane reads untrusted input and writes: that needs the operator's express acceptance."""
    return trust is Trust.UNTRUSTED and mode is LaneMode.READ_WRITE


def decide_lane(lane: Lane, needs_write: bool) -> Decision:
    """Whether a key of this lane may make the call.

    Args:
        lane: The key's lane as it is now.
        needs_write: Whether the call changes memories.
    """
    match lane.mode:
        case LaneMode.READ_WRITE:
            return Allowed()
        case LaneMode.READ_ONLY:
            return Denied(LaneReadOnly.code) if needs_write else Allowed()
        case _:
            return Denied(LaneOff.code)
