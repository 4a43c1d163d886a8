"""Trust: what was sent while a fence may have been lost is fenced, once hints turn out to be unsound."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from memlane.domain.memory import Memory
from memlane.domain.stream import ChannelKey
from memlane.realtime.fences import WINDOW_SECONDS, Fences
from memlane.realtime.trust import Trust
from memlane.usecases.ports import StoredMemory

KEY = ChannelKey("project", "channel")
OTHER = ChannelKey("project", "other")


@dataclass(slots=True)
class House:
    """Hints that arrive until they are said not to, and a clock that is moved by hand."""

    now: float = 1000.0
    healthy: bool = True
    fences: Fences = field(default_factory=Fences)
    trust: Trust = field(init=False)

    def __post_init__(self) -> None:
        self.trust = Trust(self.fences, lambda: self.healthy, lambda: self.now)

    def due(self) -> dict[ChannelKey, int]:
        """The fences of which a resend is due within a second."""
        return dict(self.fences.take_due(self.now + 1))


@pytest.fixture
def house() -> House:
    """It has listened for long."""
    house = House()
    house.now += WINDOW_SECONDS
    return house


def row(seq: int, age: timedelta = timedelta()) -> StoredMemory:
    moment = datetime.fromtimestamp(time.time(), UTC) - age
    return StoredMemory(Memory(f"m{seq}", "topical", "user", "A text.", (), moment, moment, None, None), seq)


def test_a_young_process_fences_every_change() -> None:
    house = House()
    house.trust.note_change(KEY, 7, house.now)
    assert house.due() == {KEY: 7}


def test_a_change_is_not_fenced_while_hints_arrive(house: House) -> None:
    house.trust.note_change(KEY, 7, house.now)
    house.trust.watch()
    assert house.due() == {}


def test_while_hints_do_not_arrive_every_change_is_fenced(house: House) -> None:
    house.healthy = False
    house.trust.note_change(KEY, 7, house.now)
    assert house.due() == {KEY: 7}


def test_what_was_sent_before_hints_were_found_lost_is_fenced_from_its_first_change_on(house: House) -> None:
    house.trust.note_change(KEY, 7, house.now)
    house.trust.note_change(KEY, 8, house.now + 1)
    house.trust.note_change(OTHER, 3, house.now + 1)
    house.trust.lose()
    assert house.due() == {KEY: 7, OTHER: 3}


def test_what_was_sent_before_hints_fell_silent_is_fenced_once(house: House) -> None:
    house.trust.note_change(KEY, 7, house.now)
    house.now += 2
    house.healthy = False
    house.trust.watch()
    assert house.due() == {KEY: 7}
    house.now += 2 * WINDOW_SECONDS
    house.due()
    house.trust.watch()
    assert house.due() == {}


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_what_was_sent_within_15_s_is_remembered_however_the_spans_turn(steps: int) -> None:
    house = House()
    house.now += WINDOW_SECONDS
    for step in range(steps):
        house.now += WINDOW_SECONDS / 3
        house.trust.note_change(KEY, step, house.now)
    sent = ChannelKey("project", "sent")
    house.trust.note_change(sent, 5, house.now)
    for step in range(3):
        house.now += WINDOW_SECONDS / 3 - 0.01
        house.trust.note_change(KEY, steps + step, house.now)
    house.trust.lose()
    assert house.due()[sent] == 5


def test_what_was_sent_long_ago_is_forgotten(house: House) -> None:
    house.trust.note_change(KEY, 7, house.now)
    house.now += 3 * WINDOW_SECONDS
    house.trust.note_change(OTHER, 3, house.now)
    house.trust.lose()
    assert house.due() == {OTHER: 3}


def test_rows_that_changed_lately_are_fenced_when_a_client_catches_up_in_doubt(house: House) -> None:
    house.healthy = False
    house.trust.note_caught_up(KEY, [row(3, timedelta(hours=1)), row(5), row(9)])
    assert house.due() == {KEY: 4}


def test_rows_that_changed_long_ago_need_no_fence(house: House) -> None:
    house.healthy = False
    house.trust.note_caught_up(KEY, [row(3, timedelta(hours=1))])
    assert house.due() == {}
