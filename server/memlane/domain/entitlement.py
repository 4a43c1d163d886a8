"""Entitlement: may this organization use memory now? What cannot be read counts as denied.

Self-hosted deployments get an entitlement from a signed license, managed ones from the organization's
plan merged with an enterprise override. Both are decided here, for each request, with `now` handed in.

Data from outside (license claims, JSON columns) is read by one rule: a feature that is not a real boolean
is dropped, and a feature that is not there is off; a limit that is not a usable number is 0, since a
dropped limit would read as no limit.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from memlane.domain.decisions import Allowed, Decision, Denied
from memlane.domain.errors import EntitlementUnresolved, NotEntitled

Source: TypeAlias = Literal["managedOrgSubscription", "selfHostedDeploymentLicense"]
FaultStatus: TypeAlias = Literal["degraded", "misconfigured", "unavailable"]

MEMORY_FEATURE: Final = "memory"
"""The feature that every memory route asks for."""

MANAGED: Final = "managedOrgSubscription"
SELF_HOSTED: Final = "selfHostedDeploymentLicense"
"""The two values of `Entitlement.source`; the client refuses any other."""

FROM_LICENSE: Final = "license"
FROM_PLAN: Final = "plan"
FROM_OVERRIDE: Final = "enterpriseOverride"
"""The values of `Entitlement.entitlement_source`: what within the source decided."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", re.ASCII)
"""A feature's or limit's name; any other name is dropped."""

_LARGEST_NUMBER: Final = 2**53 - 1
"""The largest whole number that a JavaScript client reads exactly; a limit beyond it is not usable."""


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What an organization is entitled to, as its license or plan says.

    Attributes:
        active: Whether the license or subscription is in force, its dates aside.
        source: The kind of authority that says so.
        features: On or off by name; a name that is not there is off.
        limits: A finite number by name; a name that is not there is not limited.
        plan_code: The plan's code, if any.
        entitlement_source: What within the source decided: ``license``, ``plan``, ``enterpriseOverride``.
        organization: The slug of the one organization that this is for.
        not_before: The first moment it holds, timezone-aware; None for no such bound.
        expires_at: The first moment it no longer holds, timezone-aware; None for no such bound.
    """

    active: bool
    source: Source
    features: Mapping[str, bool]
    limits: Mapping[str, int | float]
    plan_code: str | None
    entitlement_source: str | None
    organization: str
    not_before: datetime | None
    expires_at: datetime | None


def decide_entitlement(
    entitlement: Entitlement, *, organization: str, feature: str = MEMORY_FEATURE, now: datetime
) -> Decision:
    """Whether ``organization`` may use ``feature`` at ``now``.

    Args:
        entitlement: What was resolved.
        organization: The slug of the organization that the runtime key belongs to.
        feature: The feature's name; its value must be exactly ``True``.
        now: The present moment, timezone-aware. A naive time anywhere denies.
    """
    entitled = is_active(entitlement, organization=organization, now=now) and entitlement.features.get(feature) is True
    return Allowed() if entitled else Denied(NotEntitled.code)


def is_active(entitlement: Entitlement, *, organization: str, now: datetime) -> bool:
    """Whether the entitlement is in force for ``organization`` at ``now``, features aside."""
    return (
        entitlement.active is True
        and entitlement.organization == organization
        and _holds(now, entitlement.not_before, entitlement.expires_at)
    )


# --- Managed: a plan merged with an enterprise override


@dataclass(frozen=True, slots=True)
class EnterpriseOverride:
    """What was agreed with one organization on top of its plan. Values are as stored, unchecked."""

    active: object
    features: object
    limits: object = field(default_factory=dict)
    expires_at: datetime | None = None

    def in_force(self, now: datetime) -> bool:
        """Whether it counts at ``now``: active is exactly ``True`` and it has not expired."""
        return self.active is True and _holds(now, None, self.expires_at)


@dataclass(frozen=True, slots=True)
class ManagedRow:
    """What the database says of an organization. JSON is decoded, but its content is unchecked.

    Attributes:
        organization: The organization's slug.
        plan_code: Its plan's code; None when it has none.
        plan_features: The plan's features; None when there is no such plan.
        plan_limits: The plan's limits; None when there is no such plan.
        override: The enterprise override, if any.
    """

    organization: str
    plan_code: str | None
    plan_features: object
    plan_limits: object
    override: EnterpriseOverride | None = None


def merge_features(plan: object, override: EnterpriseOverride | None, *, now: datetime) -> dict[str, bool]:
    """The plan's features with the override's on top, where one is in force and holds a real boolean.

    Args:
        plan: The plan's features as stored.
        override: The override; ignored when inactive or expired.
        now: The present moment, timezone-aware.
    """
    features = clean_features(plan)
    if override is not None and override.in_force(now):
        features |= clean_features(override.features)
    return features


def resolve_managed(row: ManagedRow, now: datetime) -> Entitlement:
    """The entitlement of a managed organization at ``now``.

    It is active with a plan that exists or an override that is in force. Cheap and pure: cache the row and
    resolve it on each request, so that an override ends on time.
    """
    override = row.override if row.override is not None and row.override.in_force(now) else None
    has_plan = row.plan_code is not None and isinstance(row.plan_features, Mapping)
    limits = clean_limits(row.plan_limits)
    if override is not None:
        limits |= clean_limits(override.limits)
    return Entitlement(
        active=has_plan or override is not None,
        source=MANAGED,
        features=MappingProxyType(merge_features(row.plan_features, override, now=now)),
        limits=MappingProxyType(limits),
        plan_code=row.plan_code,
        entitlement_source=FROM_PLAN if override is None else FROM_OVERRIDE,
        organization=row.organization,
        not_before=None,
        expires_at=None,
    )


def clean_features(features: object) -> dict[str, bool]:
    """The entries that are a well-formed name with a real boolean; all others are dropped, so off."""
    if not isinstance(features, Mapping):
        return {}
    return {name: value for name, value in features.items() if _named(name) and isinstance(value, bool)}


def clean_limits(limits: object) -> dict[str, int | float]:
    """The well-formed names with their numbers; a value that is no usable number becomes 0."""
    if not isinstance(limits, Mapping):
        return {}
    return {name: value if _usable(value) else 0 for name, value in limits.items() if _named(name)}


# --- What `GET /api/entitlements/runtime` answers


@dataclass(frozen=True, slots=True)
class EntitlementFault:
    """Why there is no entitlement to show.

    Attributes:
        status: ``misconfigured`` where an operator must act, ``unavailable`` where waiting may help,
            ``degraded`` where an answer exists and is not to be relied on.
        code: A stable code.
        message: One sentence for a person; no secret, no SQL.
        retryable: Whether the same call may succeed later.
    """

    status: FaultStatus
    code: str
    message: str
    retryable: bool


UNRESOLVED: Final = EntitlementFault(
    "unavailable",
    EntitlementUnresolved.code,
    "The entitlement cannot be resolved right now; try again.",
    True,
)
"""The database or another dependency does not answer."""

LICENSE_REJECTED: Final = EntitlementFault(
    "misconfigured",
    NotEntitled.code,
    "The deployment's license was rejected. Run `memlane license verify` to see why.",
    False,
)
"""The license is not one that a trusted key signed, or its claims are wrong."""

WRONG_ORGANIZATION: Final = EntitlementFault(
    "misconfigured",
    NotEntitled.code,
    "The deployment's license belongs to another organization than this runtime key.",
    False,
)
"""The license is good, but not for the organization of the key that asks."""


def runtime_entitlement_body(
    outcome: Entitlement | EntitlementFault,
    *,
    organization: str,
    now: datetime,
    request_id: str | None = None,
) -> dict[str, object]:
    """The published union, which its clients parse strictly: no field more, absent rather than null.

    Every outcome is an HTTP 200; the client never reads the body of another status.

    Args:
        outcome: The entitlement, or why there is none.
        organization: The slug of the organization that the runtime key belongs to.
        now: The present moment, timezone-aware; outside the entitlement's dates it is shown as inactive.
        request_id: Goes into the body of a fault.
    """
    if isinstance(outcome, Entitlement) and outcome.organization != organization:
        outcome = WRONG_ORGANIZATION
    if isinstance(outcome, EntitlementFault):
        error: dict[str, object] = {
            "code": outcome.code,
            "message": outcome.message,
            "retryable": outcome.retryable,
        }
        if request_id is not None:
            error["requestId"] = request_id
        return {"status": outcome.status, "error": error}
    entitlement: dict[str, object] = {
        "active": is_active(outcome, organization=organization, now=now),
        "source": outcome.source,
        "features": clean_features(outcome.features),
        "limits": clean_limits(outcome.limits),
    }
    if outcome.plan_code is not None:
        entitlement["planCode"] = outcome.plan_code
    if outcome.entitlement_source is not None:
        entitlement["entitlementSource"] = outcome.entitlement_source
    return {"status": "ready", "entitlement": entitlement}


def _holds(now: datetime, not_before: datetime | None, expires_at: datetime | None) -> bool:
    """Whether ``now`` is in [not_before, expires_at). A naive time cannot be compared: it does not hold."""
    if any(moment is not None and moment.utcoffset() is None for moment in (now, not_before, expires_at)):
        return False
    return (not_before is None or not_before <= now) and (expires_at is None or now < expires_at)


def _named(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _usable(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= _LARGEST_NUMBER
