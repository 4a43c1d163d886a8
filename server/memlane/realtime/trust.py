"""Whether hints can be trusted: while they cannot, a change counts as fenced, since its fence may have been lost."""

import time
from collections import deque
from collections.abc import Callable, Sequence

from memlane.domain.stream import CURSOR_SECONDS, ChannelKey
from memlane.realtime.fences import WINDOW_SECONDS, Fences
from memlane.usecases.ports import StoredMemory

CAUGHT_UP_MAX = 10_000
"""Most catchings-up that are remembered until hints turn out to be sound; of more, the oldest is forgotten."""


class Trust:
    """Adds the fences that lost hints would have added.

    Args:
        fences: Where they go.
        healthy: Whether hints arrive now.
        monotonic: A clock in seconds.
    """

    def __init__(self, fences: Fences, healthy: Callable[[], bool], monotonic: Callable[[], float]) -> None:
        self._fences = fences
        self._healthy = healthy
        self._monotonic = monotonic
        # What was answered before this process listened may still be under way.
        self.distrust_until = monotonic() + WINDOW_SECONDS
        self._was_healthy = True
        # What was caught up while hints were trusted: the moment, and the seq before the rows that had just changed.
        self._caught_up: deque[tuple[float, ChannelKey, int]] = deque(maxlen=CAUGHT_UP_MAX)

    def holds(self, now: float) -> bool:
        """Whether every fence of the last 15 s was heard."""
        return now >= self.distrust_until and self._healthy()

    def lose(self) -> None:
        """Hints were lost."""
        self.distrust_until = self._monotonic() + WINDOW_SECONDS
        self._fence_caught_up()

    def watch(self) -> None:
        """Called again and again: notices when hints cease to arrive."""
        healthy = self._healthy()
        if self._was_healthy and not healthy:
            self._fence_caught_up()
        self._was_healthy = healthy

    def note_change(self, key: ChannelKey, last: int, now: float) -> None:
        """A channel is about to move on from ``last``."""
        if not self.holds(now):
            self._fences.add(key, last, now)

    def note_caught_up(self, key: ChannelKey, rows: Sequence[StoredMemory]) -> None:
        """A stock client read these rows. A list from before they changed may be under way, its fence unheard."""
        recently = time.time() - CURSOR_SECONDS
        recent = [row.seq for row in rows if row.memory.updated_at.timestamp() > recently]
        if not recent:
            return
        now = self._monotonic()
        if self.holds(now):
            self._caught_up.append((now, key, min(recent) - 1))
        else:
            self._fences.add(key, min(recent) - 1, now)

    def _fence_caught_up(self) -> None:
        # Hints fail 2 s before that is noticed: what was caught up meanwhile was trusted wrongly.
        now = self._monotonic()
        for moment, key, since in self._caught_up:
            if now - moment < WINDOW_SECONDS:
                self._fences.add(key, since, now)
        self._caught_up.clear()
