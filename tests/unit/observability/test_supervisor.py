"""Background tasks are restarted when they die, with backoff, and their death is a metric."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from memlane.observability import metrics, supervisor
from memlane.observability.supervisor import Supervisor


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same backoff, a hundred times as fast."""
    monkeypatch.setattr(supervisor, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(supervisor, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.3)


def restarts(name: str) -> float:
    value: float = metrics.TASK_RESTARTS.labels(name)._value.get()
    return value


def up(name: str) -> float:
    value: float = metrics.TASKS_UP.labels(name)._value.get()
    return value


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - a metric is no event
            await asyncio.sleep(0.001)


async def forever() -> None:
    await asyncio.Event().wait()


def dying(times: int, then: Callable[[], Awaitable[None]] = forever) -> Callable[[], Awaitable[None]]:
    """A task that raises this many times before it runs."""
    left = times

    async def run() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise ValueError("a text that no log may show")
        await then()

    return run


async def test_a_task_that_dies_is_restarted_and_counted() -> None:
    keeper = Supervisor()
    keeper.start("dies-3", dying(3))
    await until(lambda: restarts("dies-3") == 3 and up("dies-3") == 1)
    assert keeper.down() == frozenset()
    await keeper.aclose()


async def test_while_it_waits_for_its_restart_a_task_is_down() -> None:
    keeper = Supervisor()
    keeper.start("dies-often", dying(1000))
    keeper.start("lives", forever)
    await until(lambda: keeper.down() == {"dies-often"} and up("dies-often") == 0)
    assert up("lives") == 1
    await keeper.aclose()


async def test_a_task_that_returns_is_restarted_too() -> None:
    ran = 0

    async def returns() -> None:
        nonlocal ran
        ran += 1

    keeper = Supervisor()
    keeper.start("returns", returns)
    await until(lambda: ran >= 3)
    await keeper.aclose()


async def test_the_waits_double_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        # Other tests' tasks may share the loop.
        task = asyncio.current_task()
        if task is None or task.get_name() != "backs-off":
            await sleep(seconds)
            return
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(supervisor.asyncio, "sleep", noted)
    keeper = Supervisor()
    keeper.start("backs-off", dying(9))
    while len(waits) < 9:
        await sleep(0)
    await keeper.aclose()
    assert waits == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.05]


async def test_closing_cancels_every_task_and_waits_for_its_end() -> None:
    ended: list[str] = []

    def slow_to_end(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            try:
                await forever()
            finally:
                await asyncio.sleep(0.01)
                ended.append(name)

        return run

    keeper = Supervisor()
    keeper.start("a", slow_to_end("a"))
    keeper.start("b", slow_to_end("b"))
    await asyncio.sleep(0.01)
    await keeper.aclose()
    assert sorted(ended) == ["a", "b"]
    await keeper.aclose()
