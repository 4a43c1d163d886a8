"""Rates: so many a second on average, and a burst before that counts.

The generic cell rate algorithm: one number is kept for each subject, the moment at which all that it was allowed so far
would have been used up at the steady rate. Pure; the time is handed in.
"""

from dataclasses import dataclass
from math import ceil

BURST_SECONDS = 10
"""A burst is what the steady rate allows in so many seconds."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something may happen, on average. ``per_second`` is above 0."""

    per_second: float

    @property
    def interval(self) -> float:
        """Seconds that one of them uses up."""
        return 1.0 / self.per_second

    @property
    def tolerance(self) -> float:
        """How far ahead of the steady rate a subject may be, in seconds."""
        return float(BURST_SECONDS)


@dataclass(frozen=True, slots=True)
class Charge:
    """What a request costs: ``cost`` of the rate ``rate`` of the subject ``key``.

    Attributes:
        key: Names the subject; holds no user's id in clear.
        rate: Its rate.
        cost: How many at once; more than a burst holds would never be allowed, so it is cut to that: it passes when
            the subject has rested, and uses up all of its burst.
        what: What there were too many of, for people.
    """

    key: str
    rate: Rate
    cost: int
    what: str

    @property
    def seconds(self) -> float:
        """What it uses up."""
        return min(self.cost * self.rate.interval, self.rate.tolerance)


def decide_rate(used_until: float, now: float, charge: Charge) -> tuple[float, float]:
    """Whether a charge is allowed now.

    Args:
        used_until: The number that is kept; 0 of a new subject.
        now: Seconds of a steady clock.
        charge: The charge.

    Returns:
        The new number, and the seconds to wait: 0 when it is allowed; else the number is as before.
    """
    ahead = max(used_until, now) + charge.seconds
    # The same sum on both sides: what a subject that rested may use up must not fail by a rounding error.
    wait = ahead - (now + charge.rate.tolerance)
    return (used_until, wait) if wait > 0 else (ahead, 0.0)


def retry_after_seconds(wait: float) -> int:
    """A wait as `Retry-After` tells it: whole seconds, at least 1."""
    return max(1, ceil(wait))
