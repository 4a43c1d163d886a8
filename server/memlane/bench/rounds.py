"""A round: a number of requests, sent by clients that each wait for their answer before they send the next."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

Action: TypeAlias = Literal["save", "recall", "list"]
ACTIONS: tuple[Action, ...] = ("list", "recall", "save")
"""In the order of the run: saves last, as they make the lists longer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """One round to run.

    Attributes:
        action: What every request does.
        clients: How many clients ask at once, 1 or more.
        count: Requests in all.
        first: The number of the first request's text; the next ones follow it.
    """

    action: Action
    clients: int
    count: int
    first: int


@dataclass(frozen=True, slots=True)
class Round:
    """What came of it: the seconds of each request, and of the whole round."""

    latencies: list[float]
    seconds: float


class Side(Protocol):
    """The floor or the service."""

    async def run(self, job: Job) -> Round:
        """Run a round; everything that can be prepared is prepared before the clock starts."""
        ...

    async def aclose(self) -> None:
        """Free connections and threads."""
        ...


async def closed_loop(requests: Sequence[T], clients: Sequence[Callable[[T], Awaitable[None]]]) -> Round:
    """Send all requests through the clients, each as soon as it is free.

    Args:
        requests: What to send.
        clients: One sender for each client; it returns when the answer is there.
    """
    left = iter(requests)
    latencies: list[float] = []

    async def work(send: Callable[[T], Awaitable[None]]) -> None:
        for request in left:
            asked = time.perf_counter()
            await send(request)
            latencies.append(time.perf_counter() - asked)

    began = time.perf_counter()
    await asyncio.gather(*(work(send) for send in clients))
    return Round(latencies, time.perf_counter() - began)
