import pytest

from memlane.domain.decisions import Allowed, Decision, Denied
from memlane.domain.lane import Lane, LaneMode, Trust, decide_lane


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize(
    ("mode", "needs_write", "decision"),
    [
        (LaneMode.READ_WRITE, False, Allowed()),
        (LaneMode.READ_WRITE, True, Allowed()),
        (LaneMode.READ_ONLY, False, Allowed()),
        (LaneMode.READ_ONLY, True, Denied("LANE_READ_ONLY")),
        (LaneMode.OFF, False, Denied("LANE_OFF")),
        (LaneMode.OFF, True, Denied("LANE_OFF")),
    ],
)
def test_the_mode_alone_decides_and_never_the_trust(
    trust: Trust, mode: LaneMode, needs_write: bool, decision: Decision
) -> None:
    assert decide_lane(Lane(id="l1", name="agents", trust=trust, mode=mode), needs_write) == decision


def test_trust_and_mode_speak_the_words_of_the_database() -> None:
    assert list(Trust) == ["trusted", "internal", "untrusted"]
    assert list(LaneMode) == ["read-write", "read-only", "off"]
