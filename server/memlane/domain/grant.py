"""The memory grant: how far a call may reach into each scope.

A runtime key carries the widest grant; the header `X-Cpki-Memory-Grant` can only narrow it. What is not
granted is denied: a side that the header leaves out is `none`.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memlane.domain.decisions import Allowed, Decision, Denied
from memlane.domain.errors import FieldFault, GrantDenied, ValidationFailed

GRANT_HEADER: Final = "X-Cpki-Memory-Grant"
"""The header's name, and the path that its faults are reported under."""

GRANT_HEADER_MAX: Final = 256
"""Longest header value, in characters. The published runtime's longest is 44."""


class Access(StrEnum):
    """How far one scope is open, from closed to fully open."""

    NONE = "none"
    READ = "read"
    READ_WRITE = "read-write"

    @property
    def rank(self) -> int:
        """The place in the order none, read, read-write: 0, 1, 2."""
        return _ORDER.index(self)

    def allows(self, *, needs_write: bool) -> bool:
        """Whether this access is enough to read, or to write where ``needs_write``."""
        return self is Access.READ_WRITE or (self is Access.READ and not needs_write)


_ORDER: Final = (Access.NONE, Access.READ, Access.READ_WRITE)
_NAMES: Final = frozenset(access.value for access in Access)


@dataclass(frozen=True, slots=True)
class Grant:
    """The access to each scope: the user's own memories, and those of the project."""

    user: Access
    project: Access

    def narrowed_by(self, other: "Grant") -> "Grant":
        """The lesser access of each side: what both grants allow."""
        return Grant(
            user=min(self.user, other.user, key=lambda access: access.rank),
            project=min(self.project, other.project, key=lambda access: access.rank),
        )


FULL_GRANT: Final = Grant(user=Access.READ_WRITE, project=Access.READ_WRITE)
NO_GRANT: Final = Grant(user=Access.NONE, project=Access.NONE)


def decide_grant(grant: Grant, scope: str, needs_write: bool) -> Decision:
    """Whether the grant reaches ``scope``.

    Args:
        grant: What the call holds: the key's grant, narrowed by the header's.
        scope: ``user`` or ``project``; anything else is denied.
        needs_write: Whether the call changes memories.
    """
    sides = {"user": grant.user, "project": grant.project}
    enough = sides.get(scope, Access.NONE).allows(needs_write=needs_write)
    return Allowed() if enough else Denied(GrantDenied.code)


def decide_any(grant: Grant) -> Decision:
    """Whether the grant reaches anything at all: `none` on both sides is denied."""
    return Denied(GrantDenied.code) if grant == NO_GRANT else Allowed()


def parse_grant_header(value: str) -> Grant:
    """Read ``{"user":A,"project":A}``, A one of ``none``, ``read``, ``read-write``.

    Args:
        value: The header as sent, at most 256 characters. A missing side is ``none``.

    Raises:
        ValidationFailed: Not such an object, an unknown side or access, or a side named twice. The fault
            stands under the header's name and never repeats the value.
    """
    if len(value) > GRANT_HEADER_MAX:
        raise _fault(f"must be at most {GRANT_HEADER_MAX} characters")
    try:
        pairs = json.loads(value, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise _fault("must be a JSON object") from None
    if not isinstance(pairs, _Pairs):
        raise _fault("must be a JSON object")
    sides: dict[str, Access] = {}
    for side, access in pairs:
        if side not in ("user", "project"):
            raise _fault("may hold `user` and `project` only")
        if side in sides:
            raise _fault(f"names `{side}` twice")
        if not isinstance(access, str) or access not in _NAMES:
            raise _fault(f"`{side}` must be one of none, read, read-write")
        sides[side] = Access(access)
    return Grant(user=sides.get("user", Access.NONE), project=sides.get("project", Access.NONE))


class _Pairs(list[tuple[str, object]]):
    """A JSON object as it was written, repeats included."""


def _fault(message: str) -> ValidationFailed:
    return ValidationFailed("The memory grant is not valid.", [FieldFault(GRANT_HEADER, message)])
