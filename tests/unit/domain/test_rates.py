"""So many a second on average, and a burst of ten seconds' worth before that counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.rates import BURST_SECONDS, Charge, Rate, decide_rate, retry_after_seconds


def charge(per_second: float, cost: int = 1) -> Charge:
    return Charge("k", Rate(per_second), cost, "requests")


@pytest.mark.parametrize("per_second", [0.5, 1, 7, 1000])
def test_a_burst_passes_and_the_next_one_waits_for_its_turn(per_second: float) -> None:
    used, passed = 0.0, 0
    while True:
        used, wait = decide_rate(used, 100.0, charge(per_second))
        if wait:
            break
        passed += 1
    assert abs(passed - per_second * BURST_SECONDS) <= 1
    assert 0 < wait <= 1 / per_second + 1e-9
    assert decide_rate(used, 100.0 + wait + 1e-6, charge(per_second))[1] == 0


@given(
    per_second=st.floats(0.1, 100),
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=200),
    cost=st.integers(1, 5),
)
def test_over_any_time_no_more_passes_than_rate_times_time_and_the_burst(
    per_second: float, gaps: list[float], cost: int
) -> None:
    used, now, passed = 0.0, 50.0, 0
    for gap in gaps:
        now += gap
        used, wait = decide_rate(used, now, charge(per_second, cost))
        passed += 0 if wait else 1
    one = charge(per_second, cost).seconds
    assert passed * one <= (now - 50.0) + BURST_SECONDS + 1e-6


def test_what_is_refused_costs_nothing() -> None:
    used, wait = decide_rate(120.0, 100.0, charge(1, 5))
    assert (used, wait > 0) == (120.0, True)


@given(per_second=st.floats(0.1, 1000), cost=st.integers(1, 100_000), now=st.floats(0, 1e7))
def test_any_cost_passes_at_any_moment_when_nothing_else_was_asked(per_second: float, cost: int, now: float) -> None:
    assert decide_rate(0.0, now, charge(per_second, cost))[1] == 0


# From here on 10 s later stands on a coarser grid of floating point.
@pytest.mark.parametrize("now", [2**17 - 9.999_999_9, 2**17 - 1 / 3, 2**20 - 0.1])
def test_a_whole_burst_passes_where_the_clock_loses_a_bit(now: float) -> None:
    assert decide_rate(0.0, now, charge(5, 60))[1] == 0


def test_a_cost_that_no_burst_holds_does_not_pass_behind_anything_else() -> None:
    used, _ = decide_rate(0.0, 100.0, charge(5))
    used, wait = decide_rate(used, 100.0, charge(5, 60))
    assert wait == pytest.approx(1 / 5)
    assert decide_rate(used, 100.0 + wait + 1e-6, charge(5, 60))[1] == 0


@given(per_second=st.floats(0.1, 100), first=st.integers(1, 2000), second=st.integers(1, 2000), now=st.floats(0, 1e6))
def test_what_waits_as_long_as_it_was_told_passes(per_second: float, first: int, second: int, now: float) -> None:
    used, _ = decide_rate(0.0, now, charge(per_second, first))
    used, wait = decide_rate(used, now, charge(per_second, second))
    assert 0 <= wait <= BURST_SECONDS + 1e-6
    assert not wait or decide_rate(used, now + wait + 1e-6, charge(per_second, second))[1] == 0


@pytest.mark.parametrize(("wait", "told"), [(0.01, 1), (1.0, 1), (1.2, 2), (59.9, 60)])
def test_retry_after_is_whole_seconds_and_never_0(wait: float, told: int) -> None:
    assert retry_after_seconds(wait) == told
