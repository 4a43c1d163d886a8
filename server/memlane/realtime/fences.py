"""Fences: when a late answer may have overwritten newer rows in a stock client, the rows are sent again.

An answer that shows a channel at head h may reach its client up to 15 s later. Should the channel move
meanwhile, the client would show what is older, so the rows past h go out again at fixed times after the answer.
Pure but for the clock, which is handed in. One window for each channel; answers within 0.25 s count as one
(the lower head of the two), so a window holds at most 62 of them.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from memlane.domain.stream import ChannelKey

RESEND_AT = (0.1, 0.7, 2.0, 5.0, 15.0)
"""Seconds after the answer (realtime.md, Fence)."""
MERGE_SECONDS = 0.25
WINDOW_SECONDS = RESEND_AT[-1] + MERGE_SECONDS
"""How long an answer may be under way, counted from the first that it was merged with; past that the client has
given it up."""
WINDOWS_MAX = 50_000
"""Most channels with a window; of more, the oldest window goes and is counted."""
SECONDS_PER_ROW = 0.005
"""After a resend of n rows the next waits at least n times this: a busy channel repeats at most 200 rows a second."""


@dataclass(slots=True)
class _Window:
    answers: deque[tuple[float, int]] = field(default_factory=deque)
    newest: float = 0.0
    due: float = 0.0
    not_before: float = 0.0


class Fences:
    """The windows of all channels that were lately answered for."""

    def __init__(self) -> None:
        self._windows: OrderedDict[ChannelKey, _Window] = OrderedDict()
        self._due: list[tuple[float, str, ChannelKey]] = []
        self.dropped = 0

    def __len__(self) -> int:
        """How many channels have a window."""
        return len(self._windows)

    def add(self, key: ChannelKey, head: int, now: float) -> None:
        """An answer that shows ``head`` is under way from now on."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window()
            if len(self._windows) > WINDOWS_MAX:
                self._windows.popitem(last=False)
                self.dropped += 1
        if window.answers and now - window.answers[-1][0] < MERGE_SECONDS:
            began, lower = window.answers[-1]
            window.answers[-1] = (began, min(lower, head))
        else:
            window.answers.append((now, head))
        window.newest = now
        self._windows.move_to_end(key)
        first = max(now + RESEND_AT[0], window.not_before)
        # A resend that is due and not yet taken is never put off by another answer.
        self._schedule(key, window, min(window.due, first) if window.due else first)

    def take_due(self, now: float) -> list[tuple[ChannelKey, int]]:
        """The channels whose resend is due, each with the lowest head that an answer under way shows."""
        taken = []
        while self._due and self._due[0][0] <= now:
            due, _, key = heappop(self._due)
            window = self._windows.get(key)
            if window is None or window.due != due:
                continue
            taken.append((key, min(head for _, head in window.answers)))
            while window.answers and now - window.answers[0][0] > WINDOW_SECONDS:
                window.answers.popleft()
            following = [window.newest + wait for wait in RESEND_AT if window.newest + wait > now]
            if following and window.answers:
                self._schedule(key, window, following[0])
            else:
                del self._windows[key]
        return taken

    def slow_down(self, key: ChannelKey, rows: int, now: float) -> None:
        """A resend took so many rows: put the next one off accordingly."""
        window = self._windows.get(key)
        if window is not None:
            window.not_before = now + rows * SECONDS_PER_ROW
            self._schedule(key, window, max(window.due, window.not_before))

    def _schedule(self, key: ChannelKey, window: _Window, due: float) -> None:
        if window.due != due:
            window.due = due
            heappush(self._due, (due, key.channel_id, key))
