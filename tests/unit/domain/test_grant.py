import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.decisions import Allowed, Denied
from memlane.domain.errors import ValidationFailed
from memlane.domain.grant import (
    FULL_GRANT,
    GRANT_HEADER,
    GRANT_HEADER_MAX,
    NO_GRANT,
    Access,
    Grant,
    decide_any,
    decide_grant,
    parse_grant_header,
)

N, R, W = Access.NONE, Access.READ, Access.READ_WRITE
DENIED = Denied("MEMORY_GRANT_DENIED")
accesses = st.sampled_from(Access)
grants = st.builds(Grant, user=accesses, project=accesses)


@pytest.mark.parametrize(
    ("access", "needs_write", "allowed"),
    [
        (N, False, False),
        (N, True, False),
        (R, False, True),
        (R, True, False),
        (W, False, True),
        (W, True, True),
    ],
)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_each_side_decides_its_own_scope_only(scope: str, access: Access, needs_write: bool, allowed: bool) -> None:
    other = N if allowed else W
    grant = Grant(user=access, project=other) if scope == "user" else Grant(user=other, project=access)
    assert decide_grant(grant, scope, needs_write) == (Allowed() if allowed else DENIED)


def test_an_unknown_scope_is_denied_even_to_the_full_grant() -> None:
    assert decide_grant(FULL_GRANT, "organization", needs_write=False) == DENIED


@given(grants)
def test_none_on_both_sides_is_denied_and_anything_else_is_not(grant: Grant) -> None:
    assert (decide_any(grant) == DENIED) is (grant == NO_GRANT)


@given(grants, grants, st.sampled_from(["user", "project"]), st.booleans())
def test_a_narrowed_grant_allows_exactly_what_both_allow(
    one: Grant, other: Grant, scope: str, needs_write: bool
) -> None:
    both = all(decide_grant(grant, scope, needs_write) == Allowed() for grant in (one, other))
    assert (decide_grant(one.narrowed_by(other), scope, needs_write) == Allowed()) is both


@given(grants, grants, grants)
def test_narrowing_is_commutative_associative_and_idempotent(a: Grant, b: Grant, c: Grant) -> None:
    assert a.narrowed_by(b) == b.narrowed_by(a)
    assert a.narrowed_by(b).narrowed_by(c) == a.narrowed_by(b.narrowed_by(c))
    assert a.narrowed_by(a) == a == a.narrowed_by(FULL_GRANT)


@given(grants)
def test_a_header_gives_back_the_grant_that_it_was_made_from(grant: Grant) -> None:
    assert parse_grant_header(json.dumps({"user": grant.user, "project": grant.project})) == grant


@pytest.mark.parametrize(
    ("value", "grant"),
    [
        ("{}", NO_GRANT),
        ('{"user":"read"}', Grant(user=R, project=N)),
        ('{"project":"read-write"}', Grant(user=N, project=W)),
        (' { "project" : "none", "user" : "read-write" } ', Grant(user=W, project=N)),
    ],
)
def test_a_missing_side_is_none(value: str, grant: Grant) -> None:
    assert parse_grant_header(value) == grant


@pytest.mark.parametrize(
    "value",
    [
        "",
        "read",
        "null",
        "[]",
        '"read"',
        '["user","read"]',
        '[["user","read"]]',
        '{"user":"read"',
        '{"user":"read"} x',
        '{"user":"write"}',
        '{"user":"READ"}',
        '{"user":"read "}',
        '{"user":null}',
        '{"user":true}',
        '{"user":1}',
        '{"user":["read"]}',
        '{"user":{"user":"read"}}',
        '{"User":"read"}',
        '{"organization":"read"}',
        '{"user":"read","user":"read-write"}',
        '{"user":"none","project":"none","user":"read-write"}',
        "[" * GRANT_HEADER_MAX,
        '{"user":"read"}' + " " * GRANT_HEADER_MAX,
    ],
)
def test_a_malformed_header_is_refused_under_its_name(value: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        parse_grant_header(value)
    assert [fault.path for fault in refused.value.details] == [GRANT_HEADER]


@given(st.text(max_size=300))
def test_no_header_makes_it_raise_anything_else(value: str) -> None:
    with contextlib.suppress(ValidationFailed):
        parse_grant_header(value)
