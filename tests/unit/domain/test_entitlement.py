from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.decisions import Allowed, Denied
from memlane.domain.entitlement import (
    LICENSE_REJECTED,
    UNRESOLVED,
    EnterpriseOverride,
    Entitlement,
    EntitlementFault,
    ManagedRow,
    clean_limits,
    decide_entitlement,
    merge_features,
    resolve_managed,
    runtime_entitlement_body,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DENIED = Denied("MEMORY_NOT_ENTITLED")
ENTITLED = Entitlement(
    active=True,
    source="selfHostedDeploymentLicense",
    features={"memory": True},
    limits={"memories.max": 1000},
    plan_code="team",
    entitlement_source="license",
    organization="acme",
    not_before=NOW - SECOND,
    expires_at=NOW + SECOND,
)
RUBBISH: list[Any] = ["true", "True", "", 1, 0, 1.0, None, [], [True], {}, {"memory": True}]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def decide(entitlement: Entitlement, *, organization: str = "acme", now: datetime = NOW) -> Any:
    return decide_entitlement(entitlement, organization=organization, now=now)


def test_an_active_entitlement_within_its_dates_allows() -> None:
    assert decide(ENTITLED) == Allowed()


@pytest.mark.parametrize("active", [False, *RUBBISH])
def test_active_must_be_exactly_true(active: Any) -> None:
    assert decide(replace(ENTITLED, active=active)) == DENIED


@pytest.mark.parametrize("value", [False, *RUBBISH])
def test_the_feature_must_be_exactly_true(value: Any) -> None:
    assert decide(replace(ENTITLED, features={"memory": value})) == DENIED


@pytest.mark.parametrize("features", [{}, {"Memory": True}, {"memory ": True}, {"threads": True}])
def test_a_missing_feature_is_denied(features: dict[str, bool]) -> None:
    assert decide(replace(ENTITLED, features=features)) == DENIED


@pytest.mark.parametrize("organization", ["", "acme2", "acm", "ACME", "acme "])
def test_another_organization_is_denied(organization: str) -> None:
    assert decide(ENTITLED, organization=organization) == DENIED


@pytest.mark.parametrize(
    ("not_before", "expires_at", "allowed"),
    [
        (None, None, True),
        (NOW, NOW + SECOND, True),
        (NOW + SECOND, None, False),
        (None, NOW, False),
        (None, NOW - SECOND, False),
        (NOW - SECOND, NOW + timedelta(microseconds=1), True),
        (NOW.replace(tzinfo=None), None, False),
        (None, (NOW + SECOND).replace(tzinfo=None), False),
    ],
)
def test_the_start_is_inside_and_the_end_is_outside(
    not_before: datetime | None, expires_at: datetime | None, allowed: bool
) -> None:
    decision = decide(replace(ENTITLED, not_before=not_before, expires_at=expires_at))
    assert decision == (Allowed() if allowed else DENIED)


def test_a_naive_now_is_denied_and_does_not_raise() -> None:
    assert decide(ENTITLED, now=NOW.replace(tzinfo=None)) == DENIED


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-5, 5), st.booleans(), st.booleans())
def test_it_allows_only_when_every_condition_holds(start: int, end: int, at: int, active: bool, feature: bool) -> None:
    entitlement = replace(
        ENTITLED,
        active=active,
        features={"memory": feature},
        not_before=NOW + start * SECOND,
        expires_at=NOW + end * SECOND,
    )
    expected = active and feature and start <= at < end
    assert (decide(entitlement, now=NOW + at * SECOND) == Allowed()) is expected


# --- Managed


def override(features: Any, *, active: Any = True, expires_at: datetime | None = None) -> EnterpriseOverride:
    return EnterpriseOverride(active=active, features=features, expires_at=expires_at)


@pytest.mark.parametrize(
    ("plan", "on_top", "merged"),
    [
        ({"memory": True}, None, {"memory": True}),
        ({"memory": True}, {"memory": False}, {"memory": False}),
        ({"memory": False}, {"memory": True}, {"memory": True}),
        ({}, {"memory": True}, {"memory": True}),
        ({"memory": True}, {"threads": True}, {"memory": True, "threads": True}),
        ({"memory": True}, {"memory": None}, {"memory": True}),
        ({"memory": False}, {"memory": "true"}, {"memory": False}),
        ({"memory": "true"}, {"threads": True}, {"threads": True}),
        ({"memory": 1}, {"memory": True}, {"memory": True}),
        (None, {"memory": True}, {"memory": True}),
        (["memory"], "memory", {}),
    ],
)
def test_the_override_wins_where_it_holds_a_real_boolean(plan: Any, on_top: Any, merged: dict[str, bool]) -> None:
    assert merge_features(plan, None if on_top is None else override(on_top), now=NOW) == merged


@pytest.mark.parametrize("active", [False, *RUBBISH])
def test_an_inactive_override_is_ignored(active: Any) -> None:
    assert merge_features({"memory": False}, override({"memory": True}, active=active), now=NOW) == {"memory": False}


@pytest.mark.parametrize(
    ("expires_at", "granted"), [(NOW - SECOND, False), (NOW, False), (NOW + SECOND, True), (None, True)]
)
def test_an_override_ends_at_its_expiry(expires_at: datetime | None, granted: bool) -> None:
    row = ManagedRow("acme", "team", {"memory": False}, {}, override({"memory": True}, expires_at=expires_at))
    resolved = resolve_managed(row, NOW)
    assert (decide(resolved) == Allowed()) is granted
    assert resolved.entitlement_source == ("enterpriseOverride" if granted else "plan")


def test_an_override_that_withholds_memory_denies_a_plan_that_has_it() -> None:
    row = ManagedRow("acme", "team", {"memory": True}, {}, override({"memory": False}))
    assert decide(resolve_managed(row, NOW)) == DENIED


@pytest.mark.parametrize(
    "row",
    [
        ManagedRow("acme", None, None, None),
        ManagedRow("acme", "gone", None, None),
        ManagedRow("acme", None, {"memory": True}, {}),
        ManagedRow("acme", "team", [["memory", True]], {}),
        ManagedRow("acme", None, None, None, override({"memory": True}, active=False)),
    ],
)
def test_without_a_plan_or_an_override_in_force_an_organization_is_inactive(row: ManagedRow) -> None:
    resolved = resolve_managed(row, NOW)
    assert resolved.active is False
    assert decide(resolved) == DENIED


def test_the_limits_of_the_override_stand_above_those_of_the_plan() -> None:
    agreed = EnterpriseOverride(active=True, features={}, limits={"memories.max": 9})
    row = ManagedRow("acme", "team", {"memory": True}, {"memories.max": 5, "keys.max": 2}, agreed)
    assert resolve_managed(row, NOW).limits == {"memories.max": 9, "keys.max": 2}


@pytest.mark.parametrize("value", ["100", None, True, float("nan"), float("inf"), 10**400, 2**53, [], {}])
def test_a_limit_that_cannot_be_read_allows_nothing_rather_than_everything(value: Any) -> None:
    assert clean_limits({"memories.max": value}) == {"memories.max": 0}


@given(json_values, json_values, json_values, json_values, json_values)
def test_no_stored_json_makes_resolving_or_deciding_raise_or_allow_by_accident(
    plan: Any, limits: Any, active: Any, features: Any, more: Any
) -> None:
    row = ManagedRow("acme", "team", plan, limits, EnterpriseOverride(active, features, more, None))
    resolved = resolve_managed(row, NOW)
    granted = [source for source in (plan, features) if isinstance(source, dict) and source.get("memory") is True]
    assert decide(resolved) == DENIED or granted
    runtime_entitlement_body(resolved, organization="acme", now=NOW)


# --- The published union


def test_a_ready_body_has_exactly_the_published_fields() -> None:
    assert runtime_entitlement_body(ENTITLED, organization="acme", now=NOW, request_id="r1") == {
        "status": "ready",
        "entitlement": {
            "active": True,
            "source": "selfHostedDeploymentLicense",
            "features": {"memory": True},
            "limits": {"memories.max": 1000},
            "planCode": "team",
            "entitlementSource": "license",
        },
    }


def test_what_is_not_known_is_absent_and_never_null() -> None:
    bare = replace(ENTITLED, plan_code=None, entitlement_source=None)
    body: Any = runtime_entitlement_body(bare, organization="acme", now=NOW)
    assert body["entitlement"].keys() == {"active", "source", "features", "limits"}


@pytest.mark.parametrize("now", [NOW - 2 * SECOND, NOW + SECOND])
def test_outside_its_dates_an_entitlement_is_shown_as_inactive(now: datetime) -> None:
    body: Any = runtime_entitlement_body(ENTITLED, organization="acme", now=now)
    assert body["status"] == "ready"
    assert body["entitlement"]["active"] is False


def test_the_entitlement_of_another_organization_is_never_shown() -> None:
    body: Any = runtime_entitlement_body(ENTITLED, organization="other", now=NOW)
    assert body["status"] == "misconfigured"
    assert body.keys() == {"status", "error"}
    assert "acme" not in str(body)


@pytest.mark.parametrize(
    ("fault", "request_id", "names"),
    [
        (UNRESOLVED, None, {"code", "message", "retryable"}),
        (LICENSE_REJECTED, "r1", {"code", "message", "retryable", "requestId"}),
        (
            EntitlementFault("degraded", "X", "It lags.", True),
            "r1",
            {"code", "message", "retryable", "requestId"},
        ),
    ],
)
def test_a_fault_has_exactly_the_published_fields(
    fault: EntitlementFault, request_id: str | None, names: set[str]
) -> None:
    body: Any = runtime_entitlement_body(fault, organization="acme", now=NOW, request_id=request_id)
    assert body.keys() == {"status", "error"}
    assert body["status"] == fault.status
    assert body["error"].keys() == names


def test_rubbish_never_reaches_the_body() -> None:
    rubbish: Any = {"memory": "true", "threads": True, "__proto__": True, "": True}
    limits: Any = {"a": float("nan"), "b": 1.5, "c": True}
    body: Any = runtime_entitlement_body(
        replace(ENTITLED, features=rubbish, limits=limits), organization="acme", now=NOW
    )
    assert body["entitlement"]["features"] == {"threads": True}
    assert body["entitlement"]["limits"] == {"a": 0, "b": 1.5, "c": 0}
