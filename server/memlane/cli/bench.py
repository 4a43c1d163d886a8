"""`memlane bench`: save, recall and list beside their floor, in one run on the embedded Postgres."""

import asyncio
import json
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from memlane import __version__
from memlane.bench.deployment import Deployment, Seed, api_process, prepare
from memlane.bench.report import Comparison, as_json, as_table, compare
from memlane.bench.rounds import ACTIONS, Action, Job, Round
from memlane.bench.workers import Worker, worker
from memlane.cli.progress import progress
from memlane.embedded.postgres import DEFAULT_VERSION, EmbeddedPostgres


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        seed: What is in the database before.
        rounds: Pairs of rounds that count, for each act and number of clients.
        requests: Requests of one round, by number of clients.
        warm_up: Rounds of each side that do not count.
    """

    seed: Seed
    rounds: int
    requests: dict[int, int]
    warm_up: int = 1

    @property
    def all_rounds(self) -> int:
        """Pairs in all, the warm-up included."""
        return len(ACTIONS) * len(self.requests) * (self.warm_up + self.rounds)


FULL = Plan(Seed(users=100, memories_of_each=200), rounds=9, requests={1: 100, 16: 320})
QUICK = Plan(Seed(users=10, memories_of_each=20), rounds=2, requests={1: 10, 16: 32})


@click.command()
@click.option("--quick", is_flag=True, help="A small database and short rounds: checks that it runs, measures little.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def bench(quick: bool, as_json_: bool) -> None:
    """Measure save, recall and list at 1 and at 16 clients beside their floor.

    Starts an embedded Postgres in a temporary folder (durable, as `memlane dev` has it), puts 20,000 invented
    memories of 100 users in, and starts `memlane api` with the offline embedder. Then the floor (the same SQL
    over a bare asyncpg pool, plus the same embedding call) and the service take turns. Takes about five
    minutes; docs/benchmarks.md says how to read the table.

    Of the 20,000 memories the first 2,000 have the model's own vectors; the others have one of those, slightly
    turned at random: the database has as much to compare, and the seed does not wait for 20,000 embeddings.
    """
    plan = QUICK if quick else FULL
    console = Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="memlane-bench-"))
    try:
        comparisons = _run(plan, folder, console)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json_:
        click.echo(json.dumps(as_json(comparisons, _about(plan))))
        return
    Console().print(as_table(comparisons))
    met = sum(one.met for one in comparisons)
    click.echo(f"{met} of {len(comparisons)} aims are met.")


def _run(plan: Plan, folder: Path, console: Console) -> list[Comparison]:
    postgres = EmbeddedPostgres(folder / "postgres")
    try:
        with console.status("Starting Postgres…"):
            asyncio.run(postgres.start())
        with progress(console) as bar:
            task = bar.add_task("memories", total=plan.seed.memories)
            deployment = asyncio.run(
                prepare(postgres.dsn(), plan.seed, on_memories=lambda count: bar.advance(task, count))
            )
        return _measure(plan, deployment, folder, console)
    finally:
        asyncio.run(postgres.stop())


def _measure(plan: Plan, deployment: Deployment, folder: Path, console: Console) -> list[Comparison]:
    comparisons = []
    with (
        api_process(deployment, folder / "api.log"),
        worker("floor", deployment) as floor,
        worker("service", deployment) as service,
        progress(console) as bar,
    ):
        task = bar.add_task("rounds", total=plan.all_rounds)
        turns = _Turns(floor, service, plan.seed.memories)
        for action in ACTIONS:
            for clients, count in plan.requests.items():
                pairs = []
                for _ in range(plan.warm_up + plan.rounds):
                    pairs.append(turns.take(action, clients, count))
                    bar.advance(task)
                comparisons.append(compare(action, clients, pairs[plan.warm_up :]))
    return comparisons


class _Turns:
    """Lets the floor and the service take turns, and gives every save a text of its own."""

    def __init__(self, floor: Worker, service: Worker, first: int) -> None:
        self._floor = floor
        self._service = service
        self._next = first

    def take(self, action: Action, clients: int, count: int) -> tuple[Round, Round]:
        """One round of each."""
        done = []
        for side in (self._floor, self._service):
            done.append(side.run(Job(action, clients, count, self._next)))
            if action == "save":
                self._next += count
        if action != "save":
            # Both sides were asked the same.
            self._next += count
        floor, service = done
        return floor, service


def _about(plan: Plan) -> dict[str, object]:
    return {
        "version": __version__,
        "machine": {
            "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "postgres": DEFAULT_VERSION,
        },
        "seed": {"memories": plan.seed.memories, "users": plan.seed.users},
        "rounds": plan.rounds,
        "requests_of_a_round": {str(clients): count for clients, count in plan.requests.items()},
    }
