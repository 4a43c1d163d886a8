"""The soak itself: sockets and writes while each process is killed in turn and upgraded; then the reckoning.

`python -m soak.run` prints a report and exits 1 when a promise was broken.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from memlane.bench.report import percentile
from memlane.bench.stream_processes import allow_files
from soak.fleet import Fleet, running_fleet
from soak.pages import Page
from soak.requests import LIMIT_SECONDS, Requests, Unanswered

CONVERGE_SECONDS = 60.0
LATE_SECONDS = 1.0
OPENING_AT_ONCE = 20
WRITING_AT_ONCE = 64
"""Most writes under way: a machine that does not keep up sends the others late, and the report says how many."""
PROJECT_SHARE = 10
"""One page in so many shows the project's memories; one write in 50 is of the project."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much, and for how long.

    Attributes:
        sockets: Open pages, one socket each.
        per_second: Writes.
        seconds: How long.
        pause: Seconds between two disturbances.
        durable: Postgres syncs to disk.
    """

    sockets: int = 1000
    per_second: float = 50.0
    seconds: float = 600.0
    pause: float = 12.0
    durable: bool = True


@dataclass
class Found:
    """What came of it."""

    plan: Plan
    written: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    retries: int = 0
    unanswered: list[str] = field(default_factory=list)
    late: int = 0
    disturbed: list[str] = field(default_factory=list)
    exit_codes: set[int] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    wrong_pages: list[str] = field(default_factory=list)
    converged_after: float | None = None
    reconnects: int = 0
    lists: int = 0
    errors: list[str] = field(default_factory=list)
    memory: dict[str, str] = field(default_factory=dict)
    database: str = ""

    def broken(self) -> list[str]:
        """The promises that were not kept."""
        return [
            *(f"not answered: {one}" for one in self.unanswered[:5]),
            *([f"a request took {self.slowest:.1f} s"] if self.slowest > LIMIT_SECONDS else []),
            *(f"lost: {one}" for one in self.lost[:5]),
            *(f"not converged: {one}" for one in self.wrong_pages[:5]),
            *(f"a process that was told to end ended with {code}" for code in self.exit_codes - {0}),
        ]


class Writers:
    """Writes at a steady rate, as far as the machine keeps up; each user's own writes follow one another.

    Args:
        requests: Sends them.
        users: Whose.
        plan: How many.
        random_: From the seed.
    """

    def __init__(self, requests: Requests, users: list[str], plan: Plan, random_: Random) -> None:
        self._requests = requests
        self._users = users
        self._plan = plan
        self._random = random_
        self._locks = {user: asyncio.Lock() for user in ["", *users]}
        self._room = asyncio.Semaphore(WRITING_AT_ONCE)
        self._numbers = count(1)
        self.expected: dict[str, dict[str, str]] = {user: {} for user in ["", *users]}
        self.unsure: set[str] = set()
        self.unanswered: list[str] = []
        self.written: dict[str, int] = {}
        self.late = 0

    async def run(self) -> None:
        """Until the plan's time is over and every write has its answer."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(round(self._plan.seconds * self._plan.per_second)):
                due = began + number / self._plan.per_second
                wait = due - time.monotonic()
                await asyncio.sleep(max(0.0, wait))
                await self._room.acquire()
                self.late += time.monotonic() - due > LATE_SECONDS
                group.create_task(self._write())

    async def _write(self) -> None:
        try:
            await self._act()
        finally:
            self._room.release()

    async def _act(self) -> None:
        of_project = self._random.random() < 1 / 50
        user = self._random.choice(self._users)
        owner = "" if of_project else user
        async with self._locks[owner]:
            mine = self.expected[owner]
            act, chosen = self._random.random(), self._random.choice(sorted(mine)) if mine else None
            content = f"Note {next(self._numbers)} of {owner or 'all'}: {self._random.randbytes(8).hex()}."
            draft = {"content": content, "kind": "topical", "scope": "project" if of_project else "user"}
            try:
                if chosen is None or act < 0.6:
                    await self._saved(owner, user, draft)
                elif act < 0.8:
                    newer = await self._requests.send("PATCH", f"/api/memories/{chosen}", user, draft)
                    del mine[chosen]
                    mine[newer["id"]] = content
                    self._count("superseded")
                else:
                    await self._requests.send("DELETE", f"/api/memories/{chosen}", user, None)
                    del mine[chosen]
                    self._count("retired")
            except Unanswered as fault:
                # It may have been written or not: this channel is only looked at for what it must have.
                self.unsure.add(owner)
                self.unanswered.append(str(fault))

    async def _saved(self, owner: str, user: str, draft: dict[str, Any]) -> None:
        saved = await self._requests.send("POST", "/api/memories", user, draft)
        self.expected[owner][saved["id"]] = draft["content"]
        self._count("saved")

    def _count(self, act: str) -> None:
        self.written[act] = self.written.get(act, 0) + 1


async def soak(plan: Plan, say: Callable[[str], None] = lambda _: None, seed: int = 1) -> Found:
    """Run a plan on a fleet of its own."""
    found = Found(plan)
    async with running_fleet(durable=plan.durable) as fleet, _client() as client:
        key = await fleet.deployment.key()
        requests = Requests(key, lambda: [slot.url for slot in fleet.of("api")], client)
        users = [f"user-{number}" for number in range(plan.sockets)]
        pages = [
            Page(
                user,
                "project" if number % PROJECT_SHARE == 0 else "user",
                requests,
                lambda: [slot.url for slot in fleet.of("gateway")],
            )
            for number, user in enumerate(users)
        ]
        writers = Writers(requests, users, plan, Random(seed))  # noqa: S311 - a seed, no secret
        running = await _opened(pages, say)
        requests.seconds.clear()
        try:
            disturbing = asyncio.create_task(_disturb(fleet, plan, found, say))
            await writers.run()
            await disturbing
            await _reckon(fleet, pages, writers, found, say)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        found.database = await fleet.size()
        _sum_up(found, fleet, pages, requests, writers)
    return found


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(limits=httpx.Limits(max_connections=None, max_keepalive_connections=64))


async def _opened(pages: list[Page], say: Callable[[str], None]) -> list["asyncio.Task[None]"]:
    running: list[asyncio.Task[None]] = []
    for start in range(0, len(pages), OPENING_AT_ONCE):
        some = pages[start : start + OPENING_AT_ONCE]
        running += [asyncio.create_task(page.run()) for page in some]
        async with asyncio.timeout(60):
            while not all(page.connected for page in some):  # noqa: ASYNC110 - many plain values
                await asyncio.sleep(0.02)
    say(f"{len(pages)} sockets are open")
    return running


async def _disturb(fleet: Fleet, plan: Plan, found: Found, say: Callable[[str], None]) -> None:
    """Kill each process in turn, then upgrade each, again and again."""
    end = time.monotonic() + plan.seconds
    acts = [(act, slot) for act in ("kill", "upgrade") for slot in fleet.slots]
    for number in count():
        await asyncio.sleep(plan.pause)
        # Each act is carried out at least once, however short the plan.
        if time.monotonic() >= end and number >= len(acts):
            return
        act, slot = acts[number % len(acts)]
        if act == "kill":
            await slot.kill()
        else:
            found.exit_codes.add(await slot.upgrade())
        found.disturbed.append(f"{act} {slot.name}")
        say(f"{act} {slot.name}")


async def _reckon(fleet: Fleet, pages: list[Page], writers: Writers, found: Found, say: Callable[[str], None]) -> None:
    """Compare what was acknowledged with the database, and the pages with it."""
    live = await fleet.live_rows()
    for owner, expected in writers.expected.items():
        have = live.get(owner, {})
        if owner in writers.unsure:
            found.lost += [f"{owner}: {one}" for one, content in expected.items() if have.get(one) != content]
        elif have != expected:
            found.lost.append(f"{owner or 'project'}: {len(expected)} rows acknowledged, {len(have)} there")
    say("waiting for every page")
    began = time.monotonic()
    while True:
        wrong = [page for page in pages if page.rows != live.get(page.owner, {})]
        if not wrong or time.monotonic() - began > CONVERGE_SECONDS:
            break
        await asyncio.sleep(0.1)
    found.converged_after = None if wrong else time.monotonic() - began
    found.wrong_pages = [f"{page.user} {page.scope}" for page in wrong]
    found.wrong_pages += [f"{page.user}: {page.faults[0]}" for page in pages if page.faults]


def _sum_up(found: Found, fleet: Fleet, pages: list[Page], requests: Requests, writers: Writers) -> None:
    found.written, found.late, found.unanswered = writers.written, writers.late, writers.unanswered
    found.retries = requests.retries
    found.slowest = max(requests.seconds, default=0.0)
    found.p50, found.p99 = percentile(requests.seconds, 0.5), percentile(requests.seconds, 0.99)
    found.reconnects = sum(page.connects - 1 for page in pages)
    found.lists = sum(page.lists for page in pages)
    found.errors = fleet.errors()
    for slot in fleet.slots:
        slot.stop()
        found.memory[slot.name] = f"{slot.memory_kib // 1024} MiB at most, {slot.cpu_seconds:.0f} s of processor"


def report(found: Found) -> Table:
    """The table that is printed."""
    plan = found.plan
    table = Table(box=None, show_header=False)
    rows = {
        "load": f"{plan.sockets} sockets, {plan.per_second:g} writes/s for {plan.seconds:g} s",
        "writes": ", ".join(f"{number:,} {act}" for act, number in sorted(found.written.items()))
        + f"; {found.late:,} sent over 1 s late, as the machine was busy",
        "disturbances": f"{len(found.disturbed)}: each process was killed and upgraded in turn",
        "requests": f"p50 {found.p50 * 1000:.0f} ms, p99 {found.p99 * 1000:.0f} ms, slowest {found.slowest:.2f} s, "
        f"{found.retries:,} tried again, {len(found.unanswered)} not answered",
        "acknowledged and lost": str(len(found.lost)),
        "pages that are wrong": str(len(found.wrong_pages)),
        "all pages right after": "never" if found.converged_after is None else f"{found.converged_after:.1f} s",
        "reconnects": f"{found.reconnects:,}; {found.lists:,} lists",
        "lines logged as errors": str(len(found.errors)),
        **found.memory,
        "database": found.database,
    }
    for name, said in rows.items():
        table.add_row(name, said)
    return table


def main() -> int:
    """Run the plan of the command line."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=50.0, help="writes a second")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=12.0, help="seconds between two disturbances")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    plan = Plan(chosen.sockets, chosen.rate, chosen.minutes * 60, chosen.pause)
    allow_files(2 * plan.sockets)
    console = Console()
    began = time.monotonic()
    with suppress(KeyboardInterrupt):
        found = asyncio.run(
            soak(plan, lambda said: console.print(f"{time.monotonic() - began:6.1f} s  {said}"), chosen.seed)
        )
        console.print(report(found))
        for line in [*found.broken(), *found.errors[:5]]:
            console.print(line, markup=False)
        console.print("Broken." if found.broken() else "Every promise was kept.")
        return 1 if found.broken() else 0
    return 130


if __name__ == "__main__":
    sys.exit(main())
