"""The whole tree of errors that a caller can meet.

MemlaneError
├── ValidationFailed          MEMORY_VALIDATION_ERROR
│   └── SecretDetected        SECRET_DETECTED
├── Unauthenticated           UNAUTHENTICATED
├── Denied
│   ├── GrantDenied           MEMORY_GRANT_DENIED
│   ├── LaneReadOnly          LANE_READ_ONLY
│   ├── LaneOff               LANE_OFF
│   └── NotEntitled           MEMORY_NOT_ENTITLED
├── MemoryNotFound            MEMORY_NOT_FOUND
├── Conflict
│   ├── KindMismatch          MEMORY_KIND_MISMATCH
│   ├── IdempotencyConflict   IDEMPOTENCY_CONFLICT
│   └── QuotaExceeded         QUOTA_EXCEEDED
├── PayloadTooLarge           PAYLOAD_TOO_LARGE
├── RateLimited               RATE_LIMITED (retryable)
├── StorageRejected           INTERNAL_ERROR (a fault of ours: repeating it does not help)
├── TokenRejected             TOKEN_REJECTED (never shown: every reason is answered alike)
├── Misconfigured             MISCONFIGURED (ends the process)
└── Unavailable               (retryable; a dependency is down: denied, never allowed)
    ├── EntitlementUnresolved ENTITLEMENT_UNRESOLVED
    ├── EmbedderUnavailable   EMBEDDER_UNAVAILABLE
    └── StorageUnavailable    STORAGE_UNAVAILABLE

Each door (REST, MCP, CLI) maps a code to its own form. An error's docstring is its default message.
No error ever carries a memory's text, a secret or SQL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One bad field: where it stands and what is wrong with it, with the limit, never with the value."""

    path: str
    message: str


class MemlaneError(Exception):
    """The request failed."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        self.message = message or " ".join((type(self).__doc__ or "The request failed.").split())
        super().__init__(self.message)


class ValidationFailed(MemlaneError):
    """The request is not valid."""

    code = "MEMORY_VALIDATION_ERROR"

    def __init__(self, message: str | None = None, details: Sequence[FieldFault] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)


class SecretDetected(ValidationFailed):
    """A text or an id holds a credential; nothing was stored."""

    code = "SECRET_DETECTED"

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(
            f"{path} holds a credential ({kind}), so nothing was stored. Say where it is kept instead.",
            [FieldFault(path, f"holds a credential: {kind}")],
        )


class Unauthenticated(MemlaneError):
    """A valid runtime key is required: Authorization: Bearer cpk-<project>_<short>_<long>."""

    code = "UNAUTHENTICATED"


class Denied(MemlaneError):
    """The caller may not do this."""


class GrantDenied(Denied):
    """The memory grant does not allow this call."""

    code = "MEMORY_GRANT_DENIED"


class LaneReadOnly(Denied):
    """The key's lane is read-only."""

    code = "LANE_READ_ONLY"


class LaneOff(Denied):
    """The key's lane is off."""

    code = "LANE_OFF"


class NotEntitled(Denied):
    """Memory is not available for this organization or deployment."""

    code = "MEMORY_NOT_ENTITLED"


class MemoryNotFound(MemlaneError):
    """No live memory of that id and scope is visible to this caller."""

    code = "MEMORY_NOT_FOUND"


class Conflict(MemlaneError):
    """The request conflicts with what is stored."""


class KindMismatch(Conflict):
    """A memory can be superseded only by one of the same kind."""

    code = "MEMORY_KIND_MISMATCH"


class IdempotencyConflict(Conflict):
    """This Idempotency-Key was used with another request; send a new key."""

    code = "IDEMPOTENCY_CONFLICT"


class QuotaExceeded(Conflict):
    """This channel has as many live memories as it may; forget some first."""

    code = "QUOTA_EXCEEDED"

    def __init__(self, limit: int) -> None:
        super().__init__(f"There are {limit} live memories here, which is the limit; forget some first.")


class RateLimited(MemlaneError):
    """Too many requests; wait a moment."""

    code = "RATE_LIMITED"
    retryable = True

    def __init__(self, what: str, *, retry_after_seconds: int) -> None:
        super().__init__(f"Too many {what}; try again in {retry_after_seconds} s.")
        self.retry_after_seconds = retry_after_seconds


class PayloadTooLarge(MemlaneError):
    """The body is over 512 KiB."""

    code = "PAYLOAD_TOO_LARGE"


class Unavailable(MemlaneError):
    """A dependency does not answer; try again."""

    retryable = True

    def __init__(self, message: str | None = None, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class EntitlementUnresolved(Unavailable):
    """The entitlement cannot be resolved right now, so memory is denied; try again."""

    code = "ENTITLEMENT_UNRESOLVED"


class EmbedderUnavailable(Unavailable):
    """The embedder does not answer; nothing was written; try again."""

    code = "EMBEDDER_UNAVAILABLE"


class StorageUnavailable(Unavailable):
    """The database does not answer; try again."""

    code = "STORAGE_UNAVAILABLE"


class StorageRejected(MemlaneError):
    """The database cannot take a value of this request; repeating it does not help."""


class TokenRejected(MemlaneError):
    """The join token is not one of ours."""

    code = "TOKEN_REJECTED"


class Misconfigured(MemlaneError):
    """A setting is wrong and waiting will not mend it: the process ends with exit code 78."""

    code = "MISCONFIGURED"
