"""The stream's benchmark counts and compares as it says. No test here, nor anywhere, asserts a time."""

import io
import json
import resource
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from memlane.bench.deployment import BenchFailed
from memlane.bench.stream_processes import allow_files
from memlane.bench.stream_readers import Group, Latencies, Reader
from memlane.bench.stream_report import (
    FanOut,
    Idle,
    Stall,
    StallRound,
    StreamResults,
    lines_of,
    stall_verdict,
    stream_as_table,
)
from memlane.realtime.wire import text_frame


@pytest.fixture(scope="module")
def quick_run() -> dict[str, Any]:
    words = [sys.executable, "-m", "memlane", "bench-stream", "--quick", "--json"]
    done = subprocess.run(words, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_measures_both_sides_of_the_fan_out_in_turns(quick_run: dict[str, Any]) -> None:
    fan_out, plan = quick_run["results"]["fan_out"], quick_run["plan"]
    assert fan_out["sockets"] == plan["sockets"]
    assert len(fan_out["floor_per_second"]) == len(fan_out["service_per_second"]) == plan["rounds"]
    assert all(rate > 0 for rate in (*fan_out["floor_per_second"], *fan_out["service_per_second"]))


def test_every_write_of_a_run_comes_to_its_users_socket_once(quick_run: dict[str, Any]) -> None:
    plan = quick_run["plan"]
    for name in ("latency", "latency_published"):
        latency = quick_run["results"][name]
        assert latency["count"] == plan["per_second"] * plan["seconds"]
        assert 0 < latency["p50_ms"] <= latency["p99_ms"]


def test_every_event_of_a_run_comes_to_every_reader_but_the_stalled_one(quick_run: dict[str, Any]) -> None:
    plan, rounds = quick_run["plan"], quick_run["results"]["stall"]["rounds"]
    assert len(rounds) == plan["reader_rounds"]
    expected = (plan["readers"] - 1) * plan["reader_per_second"] * plan["reader_seconds"]
    assert all(one[name]["count"] == expected for one in rounds for name in ("without", "stalled"))


def test_a_run_says_of_each_aim_whether_it_is_met(quick_run: dict[str, Any]) -> None:
    assert {one["verdict"] for one in quick_run["aims"]} <= {"met", "missed", "undecided"}
    assert set(quick_run) == {"version", "machine", "plan", "results", "aims"}


def test_the_share_of_the_rate_is_the_median_over_pairs_of_rounds() -> None:
    assert FanOut(10, 800, [100, 200, 100], [80, 100, 90]).share == pytest.approx(0.8)


def test_pairs_of_rounds_that_disagree_leave_a_stalled_reader_undecided() -> None:
    assert stall_verdict(_stall((10, 11), (10, 11))) == "met"
    assert stall_verdict(_stall((10, 15), (10, 15))) == "missed"
    assert stall_verdict(_stall((10, 11), (10, 15))) == "undecided"


def test_a_latency_under_a_smaller_load_than_the_aims_does_not_meet_it() -> None:
    good = _results(Latencies(10, 1, 2, 200))
    assert {one.verdict for one in lines_of(good)} == {"met"}
    slow = _results(Latencies(10, 1, 2, 150))
    assert [one.verdict for one in lines_of(slow)].count("missed") == 4


def test_the_table_fits_a_terminal() -> None:
    printed = io.StringIO()
    Console(width=80, file=printed).print(stream_as_table(_results(Latencies(10, 1, 20, 200))))
    assert "+10%" in printed.getvalue()
    assert max(map(len, printed.getvalue().splitlines())) <= 80


@pytest.mark.parametrize("piece", [1, 3, 7, 1000, 100_000])
async def test_a_reader_counts_whole_frames_however_they_come(piece: int) -> None:
    group = Group("test")
    reader = Reader(group)
    group.expect(3)
    frames = b"".join(text_frame(b"x" * size) for size in (5, 300, 70_000))
    stream = b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + frames
    for start in range(0, len(stream), piece):
        assert not group.done.is_set()
        reader.data_received(stream[start : start + piece])
    assert group.done.is_set()
    assert group.left == 0


async def test_a_reader_times_the_first_delivery_of_a_change_alone() -> None:
    group = Group("test", timed=True)
    reader = Reader(group)
    reader.data_received(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    for seq in (1, 2, 1, 2, 3):
        event = b'[null,null,"t","memory_metadata",{"occurredAt":"2026-01-01T00:00:00Z","seq":%d}]' % seq
        reader.data_received(text_frame(event))
    assert len(group.latencies) == 3
    assert reader.last == 3


def test_too_few_open_files_are_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 1000))
    with pytest.raises(BenchFailed, match="2256 open files are needed for 2000 sockets, and the hard limit is 1000"):
        allow_files(2000)


def test_the_soft_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    allow_files(500)
    assert raised == []
    allow_files(2000)
    assert raised == [(2256, 4096)]


def _stall(*p99s: tuple[float, float]) -> Stall:
    pairs = [(Latencies(10, 1, without, 30), Latencies(10, 1, stalled, 30)) for without, stalled in p99s]
    return Stall(500, [StallRound(without, stalled, 0.5, 0.1) for without, stalled in pairs], 1)


def _results(latency: Latencies) -> StreamResults:
    fan_out, idle = FanOut(1000, 800, [100.0], [90.0]), Idle(1000, 100_000, 120_000)
    return StreamResults(fan_out, latency, latency, 500, 200, idle, _stall((10, 11)))
