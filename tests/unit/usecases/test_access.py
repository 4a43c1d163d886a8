"""Lane, then grant, as one table."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast, get_args

import pytest

from memlane.domain.caller import Caller, KeyRecord, Provenance
from memlane.domain.errors import (
    Denied,
    GrantDenied,
    LaneOff,
    LaneReadOnly,
    MemlaneError,
    MemoryNotFound,
    SecretDetected,
)
from memlane.domain.grant import Access, Grant
from memlane.domain.lane import Lane, LaneMode, Trust
from memlane.domain.memory import Memory, Scope
from memlane.screening.secrets import DetectSecrets
from memlane.usecases.access import (
    admit_write,
    readable_scopes,
    require_scope,
    require_some,
    require_writable,
    writable_scopes,
)
from memlane.usecases.ports import Services


def caller(grant: Grant, mode: LaneMode = LaneMode.READ_WRITE) -> Caller:
    lane = Lane("l", "default", Trust.INTERNAL, mode)
    key = KeyRecord("k", "s", b"", "o", "acme", None, "p", "shop", lane, grant, datetime.now(UTC), None)
    return Caller(key, "u1", grant, "r1")


def verdict(grant: Grant, mode: LaneMode, scope: Scope, *, needs_write: bool) -> type[Denied] | None:
    try:
        require_scope(caller(grant, mode), scope, needs_write=needs_write)
    except Denied as fault:
        return type(fault)
    return None


@pytest.mark.parametrize("scope", get_args(Scope))
@pytest.mark.parametrize("needs_write", [False, True])
@pytest.mark.parametrize(("user", "project"), list(itertools.product(Access, Access)))
def test_a_grant_opens_a_scope_as_far_as_it_says(
    user: Access, project: Access, scope: Scope, needs_write: bool
) -> None:
    access = user if scope == "user" else project
    enough = access is Access.READ_WRITE or (access is Access.READ and not needs_write)
    expected = None if enough else GrantDenied
    assert verdict(Grant(user, project), LaneMode.READ_WRITE, scope, needs_write=needs_write) is expected


@pytest.mark.parametrize(
    ("mode", "needs_write", "expected"),
    [
        (LaneMode.READ_ONLY, False, GrantDenied),
        (LaneMode.READ_ONLY, True, LaneReadOnly),
        (LaneMode.OFF, False, LaneOff),
        (LaneMode.OFF, True, LaneOff),
    ],
)
def test_the_lane_is_asked_before_the_grant(mode: LaneMode, needs_write: bool, expected: type[Denied]) -> None:
    assert verdict(Grant(Access.NONE, Access.NONE), mode, "user", needs_write=needs_write) is expected


def test_scopes_are_told_user_first() -> None:
    full = caller(Grant(Access.READ_WRITE, Access.READ_WRITE))
    assert readable_scopes(full) == writable_scopes(full) == ("user", "project")


def test_reading_reaches_further_than_writing() -> None:
    mixed = caller(Grant(Access.READ, Access.READ_WRITE))
    assert require_some(mixed, needs_write=False) == ("user", "project")
    assert require_some(mixed, needs_write=True) == ("project",)


def test_a_grant_that_only_reads_writes_nowhere() -> None:
    with pytest.raises(GrantDenied):
        require_some(caller(Grant(Access.READ, Access.READ)), needs_write=True)


SERVICES = cast("Services", SimpleNamespace(secrets=DetectSecrets()))
LEAKY = Provenance(sent=(("X-Memlane-Run", "postgres://app:hunter2@db"),))


def test_a_write_needs_lane_and_grant_of_each_of_its_scopes() -> None:
    mixed = caller(Grant(Access.READ, Access.READ_WRITE))
    admit_write(SERVICES, mixed)
    admit_write(SERVICES, mixed, "project")
    for scopes in (("user",), ("project", "user")):
        with pytest.raises(GrantDenied):
            admit_write(SERVICES, mixed, *scopes)
    with pytest.raises(LaneReadOnly):
        admit_write(SERVICES, caller(mixed.grant, LaneMode.READ_ONLY))


def test_no_write_begins_whose_origin_holds_a_credential() -> None:
    full = replace(caller(Grant(Access.READ_WRITE, Access.READ_WRITE)), provenance=LEAKY)
    for scopes in ((), ("user",), ("project", "user")):
        with pytest.raises(SecretDetected):
            admit_write(SERVICES, full, *scopes)


def test_who_may_not_write_learns_nothing_of_the_screening() -> None:
    reader = replace(caller(Grant(Access.READ, Access.READ)), provenance=LEAKY)
    with pytest.raises(GrantDenied):
        admit_write(SERVICES, reader)


@pytest.mark.parametrize("scope", get_args(Scope))
@pytest.mark.parametrize(
    ("access", "expected"), [(Access.NONE, MemoryNotFound), (Access.READ, GrantDenied), (Access.READ_WRITE, None)]
)
def test_a_memory_is_changed_only_where_its_own_scope_is_writable(
    scope: Scope, access: Access, expected: type[MemlaneError] | None
) -> None:
    sides = {"user": Access.READ_WRITE, "project": Access.READ_WRITE, scope: access}
    now = datetime.now(UTC)
    memory = Memory("m", "topical", scope, "Likes tea.", (), now, now)
    met = None
    try:
        require_writable(caller(Grant(sides["user"], sides["project"])), memory)
    except MemlaneError as fault:
        met = type(fault)
    assert met is expected
