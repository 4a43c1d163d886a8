from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlane.domain.stream import ChannelKey
from memlane.realtime import fences
from memlane.realtime.fences import RESEND_AT, SECONDS_PER_ROW, WINDOW_SECONDS, Fences

KEY = ChannelKey("p", "c")
OTHER = ChannelKey("p", "d")
TICK = 0.05
UNDER_WAY = 15.0
"""How long an answer may be under way, in seconds (realtime.md, Fence)."""


def run(made: Fences, begin: float, end: float) -> list[tuple[float, ChannelKey, int]]:
    """What falls due, asked for at every tick, with the time of asking."""
    taken = []
    for step in range(int((end - begin) / TICK) + 1):
        now = begin + step * TICK
        taken += [(now, key, since) for key, since in made.take_due(now)]
    return taken


def test_after_one_answer_the_rows_past_its_head_are_due_at_the_times_of_the_contract() -> None:
    made = Fences()
    made.add(KEY, 7, 100.0)
    due = run(made, 100.0, 130.0)
    assert [since for _, _, since in due] == [7] * 5
    for (at, _, _), wait in zip(due, RESEND_AT, strict=True):
        assert 100.0 + wait <= at < 100.0 + wait + 2 * TICK


def test_the_times_are_those_of_the_contract() -> None:
    assert RESEND_AT == (0.1, 0.7, 2.0, 5.0, 15.0)


def test_nothing_is_due_before_its_time() -> None:
    made = Fences()
    made.add(KEY, 7, 100.0)
    assert made.take_due(100.05) == []
    assert made.take_due(100.11) == [(KEY, 7)]
    assert made.take_due(100.5) == []


def test_the_lowest_head_that_is_under_way_counts() -> None:
    made = Fences()
    made.add(KEY, 7, 100.0)
    made.add(KEY, 5, 103.0)
    made.add(KEY, 9, 106.0)
    assert {since for _, _, since in run(made, 106.05, 115.0)} == {5}


def test_an_answer_that_was_given_up_no_longer_counts() -> None:
    made = Fences()
    made.add(KEY, 5, 100.0)
    made.add(KEY, 9, 100.0 + WINDOW_SECONDS + 0.1)
    due = run(made, 100.0 + WINDOW_SECONDS + 0.1, 140.0)
    assert [since for _, _, since in due] == [5, 9, 9, 9, 9, 9], "one last time, as it may have just arrived"


def test_a_window_without_an_answer_under_way_is_forgotten() -> None:
    made = Fences()
    made.add(KEY, 7, 100.0)
    made.add(OTHER, 1, 101.0)
    run(made, 100.0, 101.0 + WINDOW_SECONDS + 1)
    assert len(made) == 0


def test_answers_within_a_quarter_of_a_second_are_one_with_the_lower_head() -> None:
    made = Fences()
    for step in range(20):
        made.add(KEY, 20 - step, 100.0 + step * 0.01)
    assert len(made._windows[KEY].answers) == 1
    assert made.take_due(100.3) == [(KEY, 1)]


def test_the_last_of_merged_answers_is_under_way_as_long_as_any_other() -> None:
    made = Fences()
    made.add(KEY, 3, 100.0)
    made.add(KEY, 3, 100.24)
    made.add(KEY, 9, 115.11)
    made.add(KEY, 9, 115.2)
    assert made.take_due(115.22) == [(KEY, 3)]
    assert made.take_due(115.4) == [(KEY, 3)], "the second of the merged two may arrive until 115.24"


def test_a_window_holds_few_answers_however_many_there_are() -> None:
    made = Fences()
    longest = 0
    for step in range(4000):
        now = 100.0 + step * 0.01
        made.add(KEY, step, now)
        made.take_due(now)
        longest = max(longest, len(made._windows[KEY].answers))
    assert longest <= UNDER_WAY / fences.MERGE_SECONDS + 3
    assert len(made._due) < 1000


def test_a_resend_that_is_due_is_never_put_off_by_another_answer() -> None:
    made = Fences()
    for step in range(30):
        made.add(KEY, 1, 100.0 + step * 0.09)
        if made.take_due(100.0 + step * 0.09 + 0.08):
            return
    raise AssertionError("every answer put the resend off")


def test_channels_do_not_share_a_window() -> None:
    made = Fences()
    made.add(KEY, 7, 100.0)
    made.add(OTHER, 3, 100.0)
    assert sorted(made.take_due(100.2), key=str) == [(KEY, 7), (OTHER, 3)]


def test_of_too_many_channels_the_oldest_window_goes_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "WINDOWS_MAX", 3)
    made = Fences()
    for number in range(5):
        made.add(ChannelKey("p", f"c{number}"), number, 100.0 + number * 0.001)
    assert (len(made), made.dropped) == (3, 2)
    assert sorted(key.channel_id for key, _ in made.take_due(101.0)) == ["c2", "c3", "c4"]


def test_a_busy_channel_repeats_at_most_200_rows_a_second() -> None:
    made = Fences()
    rows, sent = 100, 0
    for step in range(int(10 / TICK)):
        now = 100.0 + step * TICK
        made.add(KEY, step, now)
        for key, _ in made.take_due(now):
            sent += rows
            made.slow_down(key, rows, now)
    assert sent <= 10 / SECONDS_PER_ROW + 2 * rows


def test_slowing_down_a_channel_without_a_window_does_nothing() -> None:
    made = Fences()
    made.slow_down(KEY, 1000, 100.0)
    assert made.take_due(200.0) == []


@settings(max_examples=150, deadline=None)
@given(
    gaps=st.lists(st.sampled_from([0.0, 0.01, 0.2, 0.24, 0.26, 0.9, 3.0, 6.0, 14.0, 20.0]), min_size=1, max_size=12),
    heads=st.lists(st.integers(0, 50), min_size=12, max_size=12),
    rows=st.lists(st.integers(0, 200), min_size=1, max_size=5),
)
def test_every_answer_is_followed_by_a_resend_from_its_head_whenever_it_arrives(
    gaps: list[float], heads: list[int], rows: list[int]
) -> None:
    """An answer that arrives after any time of up to 15 s is repaired afterwards: from its head or a lower one."""
    times = [100.0]
    for gap in gaps[1:]:
        times.append(times[-1] + gap)
    answers = list(zip(times, heads, strict=False))
    made, taken, waiting = Fences(), [], list(answers)
    for step in range(int((times[-1] - 100.0 + 40.0) / TICK)):
        now = 100.0 + step * TICK
        while waiting and waiting[0][0] <= now:
            _, head = waiting.pop(0)
            made.add(KEY, head, now)
        for key, since in made.take_due(now):
            taken.append((now, since))
            made.slow_down(key, rows[len(taken) % len(rows)], now)
    for at, head in answers:
        repairs = [now for now, since in taken if since <= head and now >= at]
        assert any(now >= at + UNDER_WAY for now in repairs), f"the answer of {at} may arrive after the last resend"
    assert len(made) == 0
    assert all(earlier[0] <= later[0] for earlier, later in pairwise(taken))
