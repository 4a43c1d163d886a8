from datetime import UTC, datetime

import hypothesis.strategies as st
from hypothesis import given

from memlane.domain.memory import THREAD_IDS_MAX, Memory, united_threads, without_repeats

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THREADS = st.lists(st.sampled_from([f"t{number}" for number in range(130)]), max_size=150)


def test_a_memory_is_live_until_it_is_invalidated() -> None:
    assert Memory("m", "topical", "user", "x", (), NOW, NOW).live
    assert not Memory("m", "topical", "user", "x", (), NOW, NOW, NOW).live


def test_repeats_are_dropped_and_the_first_place_is_kept() -> None:
    assert without_repeats(["b", "a", "b", "c", "a"]) == ("b", "a", "c")


def test_the_union_is_in_order_of_arrival() -> None:
    assert united_threads(["a", "b"], ["c", "d"]) == ("a", "b", "c", "d")


def test_a_thread_that_is_named_again_moves_to_the_end() -> None:
    assert united_threads(["a", "b", "c"], ["a"]) == ("b", "c", "a")


def test_past_100_the_newest_stay() -> None:
    present = [f"old-{number}" for number in range(100)]
    assert united_threads(present, ["new"]) == (*present[1:], "new")


@given(THREADS, THREADS)
def test_a_union_has_no_repeats_no_strangers_and_no_more_than_100(present: list[str], added: list[str]) -> None:
    union = united_threads(list(dict.fromkeys(present)), added)
    assert len(set(union)) == len(union) <= THREAD_IDS_MAX
    assert set(union) <= {*present, *added}
    newest = list(dict.fromkeys(added))[-THREAD_IDS_MAX:]
    assert list(union[len(union) - len(newest) :]) == newest
