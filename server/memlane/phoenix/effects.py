"""What a `Connection` asks its caller to do. Effects are carried out in the order of the list."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from memlane.phoenix.close_codes import CloseCode
from memlane.phoenix.frames import Ref


@dataclass(frozen=True, slots=True)
class Send:
    """Send this text frame to the client."""

    text: str


@dataclass(frozen=True, slots=True)
class JoinRequested:
    """Decide whether the client may join, then call ``join_accepted`` or ``join_refused``.

    The client gives up on a join 10 s after it connected. A passing fault is waited out: a refusal makes
    the stock client "unavailable" for good.
    """

    topic: str
    join_ref: Ref
    ref: Ref
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelLeft:
    """This join is over: stop deciding on it, unsubscribe it, and send no more of its events.

    Comes once for each join that was left or replaced, whether it was joined or still joining. It does
    not come for a join that the caller refused, nor at a `Close`, which ends all joins at once.
    """

    topic: str
    join_ref: Ref


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket with this code; drop every subscription. Nothing follows."""

    code: CloseCode
    reason: str


Effect: TypeAlias = Send | JoinRequested | ChannelLeft | Close
