"""Rates of one process; implements `usecases.ports.RateLimiter`."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from memlane.domain.rates import Charge, decide_rate

SUBJECTS_MAX = 50_000
"""Most subjects that are remembered; of more, the one that was longest not seen is forgotten and begins anew."""


class LocalLimiter:
    """Never fails."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._used: OrderedDict[str, float] = OrderedDict()
        self._monotonic = monotonic

    async def charge(self, charges: Sequence[Charge]) -> tuple[Charge, float] | None:
        """See `RateLimiter.charge`."""
        return self.charge_now(charges)

    def charge_now(self, charges: Sequence[Charge]) -> tuple[Charge, float] | None:
        """As `charge`."""
        now = self._monotonic()
        allowed: list[tuple[str, float]] = []
        for one in charges:
            used, wait = decide_rate(self._used.get(one.key, 0.0), now, one)
            if wait > 0:
                return one, wait
            allowed.append((one.key, used))
        for key, used in allowed:
            self._used[key] = used
            self._used.move_to_end(key)
        while len(self._used) > SUBJECTS_MAX:
            self._used.popitem(last=False)
        return None
