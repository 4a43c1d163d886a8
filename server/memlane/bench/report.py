"""Rounds as numbers, and the numbers as a table or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich import box
from rich.table import Table

from memlane.bench.rounds import Action, Round

ADDED_MS_MAX = 1.5
"""The aim at one client: what the service may add to the floor at p50, in milliseconds (issue "Speed")."""
SHARE_MIN = 0.6
"""The aim at several clients: the least share of the floor's rate."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One side's figures: of each the median over the rounds."""

    p50_ms: float
    p95_ms: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One act at one number of clients, on both sides.

    Attributes:
        action: The act.
        clients: How many asked at once.
        floor: The floor's figures.
        service: The service's figures.
        added_ms: What the service adds at p50: the median of the differences between a round and the floor's
            round right before it, so that a slow minute of the machine does not count as the service's.
        share: The service's rate as a share of the floor's: the median of the same pairs' quotients.
        aim: The aim, in words.
        met: Whether it is met.
    """

    action: Action
    clients: int
    floor: Figures
    service: Figures
    added_ms: float
    share: float
    aim: str
    met: bool


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed (nearest rank).

    Args:
        values: At least one.
        share: Above 0, at most 1.
    """
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


def compare(action: Action, clients: int, pairs: Sequence[tuple[Round, Round]]) -> Comparison:
    """The figures of pairs of rounds (floor, service), at least one."""
    floors, services = [_figures(floor) for floor, _ in pairs], [_figures(service) for _, service in pairs]
    both = list(zip(floors, services, strict=True))
    added_ms = median(service.p50_ms - floor.p50_ms for floor, service in both)
    share = median(service.per_second / floor.per_second for floor, service in both)
    alone = clients == 1
    return Comparison(
        action=action,
        clients=clients,
        floor=_medians(floors),
        service=_medians(services),
        added_ms=added_ms,
        share=share,
        aim=f"adds at most {ADDED_MS_MAX} ms at p50" if alone else f"does at least {SHARE_MIN:.0%} of the floor's rate",
        met=added_ms <= ADDED_MS_MAX if alone else share >= SHARE_MIN,
    )


def as_json(comparisons: Sequence[Comparison], about: dict[str, Any]) -> dict[str, Any]:
    """Everything, for a program."""
    return {**about, "results": [_rounded(asdict(one)) for one in comparisons]}


def as_table(comparisons: Sequence[Comparison]) -> Table:
    """Everything, for a person; 80 columns are enough."""
    aims = dict.fromkeys(f"{_clients(one.clients)} the service {one.aim}" for one in comparisons)
    caption = f"p50, p95 and adds in milliseconds. Aims: {'; '.join(aims)}."
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=0, caption=caption)
    table.add_column("\n", no_wrap=True)
    table.add_column("\nclients", justify="right", no_wrap=True)
    for side in ("floor", "service"):
        for head in (f"{side}\np50", "\np95", "\nper s"):
            table.add_column(head, justify="right", no_wrap=True)
    for head in ("p50\nadds", "rate\nshare", "\naim"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in comparisons:
        figures = [
            text
            for side in (one.floor, one.service)
            for text in (f"{side.p50_ms:.2f}", f"{side.p95_ms:.2f}", f"{side.per_second:.0f}")
        ]
        verdict = "[green]met[/]" if one.met else "[red]missed[/]"
        table.add_row(one.action, str(one.clients), *figures, f"{one.added_ms:+.2f}", f"{one.share:.0%}", verdict)
    return table


def _clients(count: int) -> str:
    return "at 1 client" if count == 1 else f"at {count} clients"


def _figures(done: Round) -> Figures:
    return Figures(
        p50_ms=percentile(done.latencies, 0.5) * 1000,
        p95_ms=percentile(done.latencies, 0.95) * 1000,
        per_second=len(done.latencies) / done.seconds,
    )


def _medians(figures: Sequence[Figures]) -> Figures:
    return Figures(
        p50_ms=median(one.p50_ms for one in figures),
        p95_ms=median(one.p95_ms for one in figures),
        per_second=median(one.per_second for one in figures),
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return value
