"""May this caller do this? Lane and grant as pure decisions; here they become errors that each door maps.

Every use case that writes begins with `admit_write`.
"""

from memlane.domain.caller import Caller
from memlane.domain.decisions import Decision, Denied
from memlane.domain.errors import Denied as DeniedError
from memlane.domain.errors import GrantDenied, LaneOff, LaneReadOnly, MemoryNotFound, NotEntitled
from memlane.domain.grant import Access, decide_any, decide_grant
from memlane.domain.lane import decide_lane
from memlane.domain.memory import Memory, Scope
from memlane.usecases.ports import Services
from memlane.usecases.screening import refuse_secret_provenance

_ERRORS: dict[str, type[DeniedError]] = {
    error.code: error for error in (GrantDenied, LaneOff, LaneReadOnly, NotEntitled)
}


def enforce(decision: Decision) -> None:
    """Raise what a denial stands for.

    Raises:
        Denied: Of the denial's code.
    """
    if isinstance(decision, Denied):
        raise _ERRORS[decision.code]


def admit_write(services: Services, caller: Caller, *scopes: Scope) -> None:
    """Let a write begin: lane, grant, and then an origin that the ledger may keep.

    Args:
        services: What to work with.
        caller: Who writes.
        scopes: Where to; none when that is not known yet, and one scope or another will do.

    Raises:
        Denied: The lane or the grant forbids it.
        SecretDetected: The origin that was sent holds a credential.
    """
    if not scopes:
        require_some(caller, needs_write=True)
    for scope in scopes:
        require_scope(caller, scope, needs_write=True)
    refuse_secret_provenance(services, caller)


def require_scope(caller: Caller, scope: Scope, *, needs_write: bool) -> None:
    """Lane, then grant, for one scope."""
    enforce(decide_lane(caller.key.lane, needs_write=needs_write))
    enforce(decide_grant(caller.grant, scope, needs_write=needs_write))


def require_some(caller: Caller, *, needs_write: bool) -> tuple[Scope, ...]:
    """Lane, then a grant on at least one scope.

    Returns:
        The scopes that this caller can use so, user first; never empty.

    Raises:
        Denied: There is none.
    """
    enforce(decide_lane(caller.key.lane, needs_write=needs_write))
    enforce(decide_any(caller.grant))
    scopes = writable_scopes(caller) if needs_write else readable_scopes(caller)
    if not scopes:
        raise GrantDenied
    return scopes


def require_writable(caller: Caller, memory: Memory) -> None:
    """A grant that lets the caller change this memory, which is the user's own or the project's.

    Raises:
        MemoryNotFound: Its scope is not open to this caller: its id looks the same as no id.
        GrantDenied: It is visible, but its scope is read-only to this caller.
    """
    if memory.scope not in readable_scopes(caller):
        raise MemoryNotFound
    if memory.scope not in writable_scopes(caller):
        raise GrantDenied


def readable_scopes(caller: Caller) -> tuple[Scope, ...]:
    """The scopes that the grant lets the caller read."""
    return tuple(scope for scope, access in _sides(caller) if access is not Access.NONE)


def writable_scopes(caller: Caller) -> tuple[Scope, ...]:
    """The scopes that the grant lets the caller write."""
    return tuple(scope for scope, access in _sides(caller) if access is Access.READ_WRITE)


def _sides(caller: Caller) -> tuple[tuple[Scope, Access], ...]:
    return (("user", caller.grant.user), ("project", caller.grant.project))
