"""How long a batch may take: long while it gets on, and no longer than any other call once it does not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from memlane.domain.errors import StorageUnavailable

T = TypeVar("T")

BATCH_SECONDS = 9.0
"""Nothing is begun after this, counted from the request. With `STILL_SECONDS` the answer stays under the door's
deadline, and that under the 15 s of rest.md."""
STILL_SECONDS = 4.5
"""Longest time without a write that was answered: a failing dependency is told within 5 s, as on every route."""


class BatchTime:
    """The time of one batch.

    It ends `STILL_SECONDS` after the latest step that got it on. From the first failure on it is not prolonged, so
    that the answer comes within 5 s of that, whatever is tried meanwhile. Every step is cut at the end, as the door
    cuts a single save: whether a write that was cut stands is unknown only if its commit was under way.

    Args:
        began: When the request came, by ``monotonic``.
        monotonic: Gives the time in seconds.
    """

    def __init__(self, began: float, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last_start = began + BATCH_SECONDS
        self._end = monotonic() + STILL_SECONDS
        self._moves = True

    def left(self) -> float:
        """Seconds that a step may take that is begun now; 0 when none may be begun."""
        now = self._monotonic()
        return 0.0 if now > self._last_start else max(0.0, self._end - now)

    def moved(self) -> None:
        """The batch got on."""
        if self._moves:
            self._end = self._monotonic() + STILL_SECONDS

    def stop_moving(self) -> None:
        """Something failed: the present end is the last."""
        self._moves = False

    async def run(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run one step of the batch, and raise what it raises.

        Raises:
            StorageUnavailable: There is no time left, or it ran out.
        """
        left = self.left()
        if left > 0:
            try:
                async with asyncio.timeout(left):
                    return await step()
            except TimeoutError:
                pass
        raise StorageUnavailable("The batch took too long; send this memory again.")
