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


def test_a_cost_that_no_burst_holds_passes_when_nothing_else_was_asked() -> None:
    assert decide_rate(0.0, 100.0, charge(1, 1000))[1] == 0


@pytest.mark.parametrize(("wait", "told"), [(0.01, 1), (1.0, 1), (1.2, 2), (59.9, 60)])
def test_retry_after_is_whole_seconds_and_never_0(wait: float, told: int) -> None:
    assert retry_after_seconds(wait) == told
