"""Background tasks that are restarted when they die.

A task's death is a metric and turns `/api/ready` red until it runs again. Restarts wait 0.1 s, doubled up to
5 s, and back to 0.1 s after 30 s of running. `aclose` cancels every task and waits for its end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from memlane.observability import metrics
from memlane.observability.logs import log

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
STEADY_SECONDS = 30.0


class Supervisor:
    """Owns the background tasks of one process."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._down: set[str] = set()

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a coroutine function for as long as the process lives; it is not expected to return."""
        self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(name, run), name=name)

    def down(self) -> frozenset[str]:
        """The tasks that died and wait for their restart."""
        return frozenset(self._down)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        wait = FIRST_WAIT
        while True:
            metrics.TASKS_UP.labels(name).set(1)
            began = time.monotonic()
            try:
                await run()
                cause = "returned"
            except Exception as fault:  # noqa: BLE001 - whatever killed the task, it is restarted and reported
                cause = type(fault).__name__
            if time.monotonic() - began > STEADY_SECONDS:
                wait = FIRST_WAIT
            self._down.add(name)
            metrics.TASKS_UP.labels(name).set(0)
            metrics.TASK_RESTARTS.labels(name).inc()
            log.error("task_died", task=name, cause=cause, restart_in_seconds=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            self._down.discard(name)

    async def aclose(self) -> None:
        """Cancel every task and wait until all have ended."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
