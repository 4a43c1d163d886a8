"""The queue of recall marks is bounded; a mark never waits and never fails."""

from datetime import UTC, datetime

from memlane.observability import metrics
from memlane.storage import recall_marks
from memlane.storage.pool import Pool
from memlane.storage.recall_marks import QUEUE_MAX, BatchedRecallMarks

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY = "postgresql://nobody@127.0.0.1:9/none"


def dropped() -> float:
    value: float = metrics.RECALLS_DROPPED._value.get()
    return value


def test_past_the_bound_a_new_mark_is_dropped_and_counted_and_a_known_one_is_kept() -> None:
    marks, before = BatchedRecallMarks(Pool(NOBODY)), dropped()
    marks.mark("p", [str(number) for number in range(QUEUE_MAX)], NOW)
    assert dropped() == before
    marks.mark("p", ["one more", "0"], NOW)
    assert dropped() == before + 1
    assert marks._marks["p", "0"] == (NOW, 2)
    assert len(marks._marks) == QUEUE_MAX


async def test_marks_that_could_not_be_written_stay_in_the_queue_and_add_up() -> None:
    pool = Pool(NOBODY)
    marks = BatchedRecallMarks(pool)
    marks.mark("p", ["b", "a"], NOW)
    await marks.flush()
    marks.mark("p", ["a"], NOW)
    assert marks._marks == {("p", "a"): (NOW, 2), ("p", "b"): (NOW, 1)}
    await pool.aclose()


def test_a_batch_is_a_fraction_of_the_queue() -> None:
    assert recall_marks.BATCH_MAX * 10 <= QUEUE_MAX
