from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memlane.domain.decisions import Allowed, Denied
from memlane.domain.grant import FULL_GRANT
from memlane.domain.lane import LaneMode
from memlane.domain.stream import CURSOR_SECONDS, UNUSED_SECONDS, JoinClaims, SessionState, decide_session

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
CLAIMS = JoinClaims(
    organization="o",
    project="p",
    user="u",
    scope="user",
    grant=FULL_GRANT,
    key_id="k",
    lane="l",
    join_code="c",
    epoch="e",
    cursor=0,
    issued_at=NOW,
    session_id="s",
)
FRESH = SessionState(
    key_known=True,
    key_revoked_at=None,
    key_expires_at=None,
    lane_mode=LaneMode.READ_WRITE,
    logged_out_at=None,
    epoch="e",
    first_used_at=None,
    organization_id="1",
    organization="acme",
)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def decide(state: SessionState, now: datetime = NOW, claims: JoinClaims = CLAIMS) -> str:
    decision = decide_session(claims, state, session_hours=24, now=now)
    return decision.code if isinstance(decision, Denied) else "allowed"


def test_a_fresh_token_may_be_used() -> None:
    assert decide_session(CLAIMS, FRESH, session_hours=24, now=NOW) == Allowed()


@pytest.mark.parametrize(
    ("age", "outcome"),
    [(0, "allowed"), (UNUSED_SECONDS, "allowed"), (UNUSED_SECONDS + 1, "token_unused_too_long")],
)
def test_a_token_dies_unused_after_120_s(age: int, outcome: str) -> None:
    assert decide(FRESH, NOW + age * SECOND) == outcome


@pytest.mark.parametrize(
    ("hours", "outcome"), [(0, "allowed"), (23, "allowed"), (24, "allowed"), (25, "session_ended")]
)
def test_from_its_first_use_a_token_serves_for_24_hours_however_old_it_is(hours: int, outcome: str) -> None:
    used = replace(FRESH, first_used_at=NOW)
    assert decide(used, NOW + hours * HOUR, replace(CLAIMS, issued_at=NOW - 100 * HOUR)) == outcome


def test_a_first_use_in_the_future_of_this_clock_is_no_fault() -> None:
    assert decide(replace(FRESH, first_used_at=NOW + SECOND)) == "allowed"


@pytest.mark.parametrize(
    "state",
    [
        replace(FRESH, key_known=False),
        replace(FRESH, key_revoked_at=NOW - HOUR),
        replace(FRESH, key_expires_at=NOW),
        replace(FRESH, key_expires_at=NOW - HOUR),
    ],
)
def test_an_unknown_a_revoked_or_an_expired_key_ends_the_session(state: SessionState) -> None:
    assert decide(state) == "key_revoked"


def test_a_key_that_expires_later_is_good_until_then() -> None:
    assert decide(replace(FRESH, key_expires_at=NOW + SECOND)) == "allowed"


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        (None, "lane_off"),
        (LaneMode.OFF, "lane_off"),
        (LaneMode.READ_ONLY, "allowed"),
        (LaneMode.READ_WRITE, "allowed"),
    ],
)
def test_a_lane_that_is_off_or_gone_ends_the_session(mode: LaneMode | None, outcome: str) -> None:
    assert decide(replace(FRESH, lane_mode=mode)) == outcome


@pytest.mark.parametrize("epoch", ["another", None])
def test_another_epoch_counts_as_revoked(epoch: str | None) -> None:
    assert decide(replace(FRESH, epoch=epoch)) == "other_epoch"


@pytest.mark.parametrize(
    ("known", "latest", "outcome"),
    [
        (None, None, "allowed"),
        (None, NOW - HOUR, "logged_out"),
        (NOW, NOW, "allowed"),
        (NOW, NOW + timedelta(microseconds=1), "logged_out"),
        (NOW + HOUR, NOW + HOUR, "allowed"),
    ],
)
def test_a_log_out_that_the_token_does_not_know_of_ends_it_whatever_the_clocks_say(
    known: datetime | None, latest: datetime | None, outcome: str
) -> None:
    claims = replace(CLAIMS, logged_out_at=known)
    assert decide(replace(FRESH, logged_out_at=latest), claims=claims) == outcome
    assert decide(replace(FRESH, logged_out_at=latest, first_used_at=NOW), claims=claims) == outcome


def test_the_first_reason_of_several_is_the_one_that_is_told() -> None:
    worst = replace(FRESH, key_known=False, lane_mode=None, epoch=None, logged_out_at=NOW)
    assert decide(worst, NOW + HOUR) == "key_revoked"


def test_the_cursor_lies_60_s_back() -> None:
    assert CURSOR_SECONDS == 60
