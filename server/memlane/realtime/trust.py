"""Whether hints can be trusted: while they cannot, a change counts as fenced, since its fence may have been lost."""

import time
from collections.abc import Callable, Sequence

from memlane.domain.stream import CURSOR_SECONDS, ChannelKey
from memlane.realtime.fences import WINDOW_SECONDS, Fences
from memlane.usecases.ports import StoredMemory


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
        # What was sent while hints were trusted, by channel: the lowest seq before it, in this span and the last one.
        self._sent: dict[ChannelKey, int] = {}
        self._sent_before: dict[ChannelKey, int] = {}
        self._span_began = monotonic()

    def holds(self, now: float) -> bool:
        """Whether every fence of the last 15 s was heard."""
        return now >= self.distrust_until and self._healthy()

    def lose(self) -> None:
        """Hints were lost."""
        self.distrust_until = self._monotonic() + WINDOW_SECONDS
        self._fence_sent()

    def watch(self) -> None:
        """Called again and again: notices when hints cease to arrive."""
        healthy = self._healthy()
        if self._was_healthy and not healthy:
            self._fence_sent()
        self._was_healthy = healthy

    def note_change(self, key: ChannelKey, last: int, now: float) -> None:
        """A channel is about to move on from ``last``."""
        if not self.holds(now):
            self._fences.add(key, last, now)
            return
        if now - self._span_began > WINDOW_SECONDS:
            self._sent_before = self._sent if now - self._span_began < 2 * WINDOW_SECONDS else {}
            self._sent, self._span_began = {}, now
        self._sent[key] = min(last, self._sent.get(key, last))

    def note_caught_up(self, key: ChannelKey, rows: Sequence[StoredMemory]) -> None:
        """A stock client read these rows. A list from before they changed may be under way, its fence unheard."""
        recently = time.time() - CURSOR_SECONDS
        recent = [row.seq for row in rows if row.memory.updated_at.timestamp() > recently]
        if recent:
            self.note_change(key, min(recent) - 1, self._monotonic())

    def _fence_sent(self) -> None:
        # Hints fail 2 s before that is noticed, and with them the fence of a list that was answered before the
        # change: what was sent in the last 15 s was trusted wrongly.
        now = self._monotonic()
        for sent in (self._sent_before, self._sent):
            for key, since in sent.items():
                self._fences.add(key, since, now)
            sent.clear()
