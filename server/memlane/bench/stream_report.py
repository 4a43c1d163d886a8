"""What was measured of the stream, as a table or as JSON, and which aim is met."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal, TypeAlias

from rich import box
from rich.table import Table

from memlane.bench.stream_readers import Latencies

RATE_SHARE_MIN = 0.8
"""The aim of a fan-out: the least share of the bare broadcast's rate (issue "Speed")."""
P50_MS_MAX = 10.0
P99_MS_MAX = 60.0
"""The aims from commit to socket."""
SOCKET_KIB_MAX = 32.0
"""The aim of an idle socket's memory."""
P99_CHANGE_MAX = 0.2
"""The aim with a stalled reader: the most by which the others' p99 may grow."""
AGREE_MIN = 0.75
"""So many of the pairs must agree with their median, or the noise decides."""
FLAT_MIB = 8.0
"""The server's memory counts as flat below this: the stalled socket's queue, one page of rows, and the allocator."""

Verdict: TypeAlias = Literal["met", "missed", "undecided"]


@dataclass(frozen=True, slots=True)
class FanOut:
    """One event to many sockets: deliveries per second, by round, of the bare server and of ours."""

    sockets: int
    frame_bytes: int
    floor_per_second: list[float]
    service_per_second: list[float]

    @property
    def share(self) -> float:
        """Our rate as a share of the floor's: the median over pairs of rounds."""
        pairs = zip(self.service_per_second, self.floor_per_second, strict=True)
        return median(ours / floor for ours, floor in pairs)


@dataclass(frozen=True, slots=True)
class Idle:
    """The server's resident memory without sockets and with many that are joined, in KiB."""

    sockets: int
    before_kib: int
    after_kib: int

    @property
    def kib_each(self) -> float:
        """What one socket takes."""
        return (self.after_kib - self.before_kib) / self.sockets


@dataclass(frozen=True, slots=True)
class StallRound:
    """A round without and one with a stalled reader."""

    without: Latencies
    stalled: Latencies
    growth_mib: float
    caught_up_seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """All rounds, and how often the stalled socket's queue overflowed in them."""

    sockets: int
    rounds: list[StallRound]
    overflows: int

    @property
    def p99_changes(self) -> list[float]:
        """By which share of itself the others' p99 changes, from each round without to the one with."""
        return [one.stalled.p99_ms / one.without.p99_ms - 1 for one in self.rounds]


@dataclass(frozen=True, slots=True)
class StreamResults:
    """Everything that a run found; the latency with the sockets of Memlane's client and of the published one."""

    fan_out: FanOut
    latency: Latencies
    latency_published: Latencies
    latency_users: int
    wanted_per_second: float
    idle: Idle
    stall: Stall


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the table: what, the figure, the aim, and whether it is met."""

    name: str
    figure: str
    aim: str
    verdict: Verdict


def lines_of(found: StreamResults) -> list[Finding]:
    """The run in words."""
    fan, idle, stall = found.fan_out, found.idle, found.stall
    changes = stall.p99_changes
    growth = max(one.growth_mib for one in stall.rounds)
    caught_up = max(one.caught_up_seconds for one in stall.rounds)
    rates = f"{median(fan.service_per_second):,.0f}/s of {median(fan.floor_per_second):,.0f}/s: {fan.share:.0%}"
    readers = f"one of {stall.sockets} stalls"
    overflowed = "never full" if not stall.overflows else f"full {stall.overflows} times"
    return [
        Finding(
            f"one event to {fan.sockets} sockets, of the bare broadcast's rate",
            rates,
            f">= {RATE_SHARE_MIN:.0%}",
            _met(fan.share >= RATE_SHARE_MIN),
        ),
        *_latency_findings(found, found.latency, "Memlane's client"),
        *_latency_findings(found, found.latency_published, "the published client"),
        Finding(
            f"memory of an idle socket (of {idle.sockets})",
            f"{idle.kib_each:.1f} KiB",
            f"< {SOCKET_KIB_MAX:.0f} KiB",
            _met(idle.kib_each < SOCKET_KIB_MAX),
        ),
        Finding(
            f"{readers}: the others' p99",
            f"{median(changes):+.0%} ({min(changes):+.0%} to {max(changes):+.0%})",
            f"< {P99_CHANGE_MAX:.0%}",
            stall_verdict(stall),
        ),
        Finding(
            f"{readers}: the server grows (queue {overflowed})",
            f"{growth:.1f} MiB",
            f"< {FLAT_MIB:.0f} MiB",
            _met(growth < FLAT_MIB),
        ),
        # A round in which it does not catch up ends the run.
        Finding(f"{readers}: has caught up after", f"{caught_up:.2f} s", "does", "met"),
    ]


def _latency_findings(found: StreamResults, late: Latencies, whose: str) -> list[Finding]:
    # A latency counts only under the load that the aim names: within 5 % of it.
    kept_up = late.per_second >= 0.95 * found.wanted_per_second
    load = f"{late.per_second:.0f} writes/s, {found.latency_users} users"
    return [
        Finding(
            f"{whose}: commit to socket, {name} ({load})",
            f"{figure:.1f} ms",
            f"< {below:.0f} ms",
            _met(kept_up and figure < below),
        )
        for name, figure, below in (("p50", late.p50_ms, P50_MS_MAX), ("p99", late.p99_ms, P99_MS_MAX))
    ]


def stall_verdict(stall: Stall) -> Verdict:
    """Whether the others notice. Undecided where less than three in four pairs of rounds agree with their median."""
    within = [change < P99_CHANGE_MAX for change in stall.p99_changes]
    met = median(stall.p99_changes) < P99_CHANGE_MAX
    if within.count(met) < AGREE_MIN * len(within):
        return "undecided"
    return _met(met)


def stream_as_json(found: StreamResults, about: dict[str, Any]) -> dict[str, Any]:
    """Everything, for a program."""
    results = asdict(found)
    results["fan_out"]["share"] = found.fan_out.share
    results["idle"]["kib_each"] = found.idle.kib_each
    results["stall"]["p99_changes"] = found.stall.p99_changes
    aims = [asdict(line) for line in lines_of(found)]
    rounded: dict[str, Any] = _rounded({**about, "results": results, "aims": aims})
    return rounded


def stream_as_table(found: StreamResults) -> Table:
    """Everything, for a person."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_column("aim", no_wrap=True)
    table.add_column("")
    colours = {"met": "green", "missed": "red", "undecided": "yellow"}
    for line in lines_of(found):
        table.add_row(line.name, line.figure, line.aim, f"[{colours[line.verdict]}]{line.verdict}[/]")
    return table


def _met(holds: object) -> Verdict:
    return "met" if holds else "missed"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value
