"""The contract's errors as exceptions, for scripts.

MemlaneApiError
├── ValidationFailed
│   └── SecretDetected
├── Unauthenticated
├── Denied
├── NotFound
├── Conflict
│   └── QuotaExceeded
├── PayloadTooLarge
├── RateLimited
└── Unavailable
"""

from collections.abc import Mapping, Sequence


class MemlaneApiError(Exception):
    """The service refused or failed.

    Attributes:
        code: The contract's code; `UNREACHABLE` when there was no answer.
        message: What is wrong and what to do.
        status: HTTP status; 0 without an answer.
        request_id: To be named to the operator.
        details: Path and message of each bad field.
        retry_after: Seconds to wait, where the service said so.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        request_id: str = "",
        details: Sequence[Mapping[str, str]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id
        self.details = tuple(details)
        self.retry_after = retry_after


class ValidationFailed(MemlaneApiError):
    """MEMORY_VALIDATION_ERROR: see `details`."""


class SecretDetected(ValidationFailed):
    """SECRET_DETECTED: a text or an id holds a credential."""


class Unauthenticated(MemlaneApiError):
    """UNAUTHENTICATED: the key is unknown, revoked or expired."""


class Denied(MemlaneApiError):
    """MEMORY_GRANT_DENIED, LANE_READ_ONLY, LANE_OFF or MEMORY_NOT_ENTITLED."""


class NotFound(MemlaneApiError):
    """MEMORY_NOT_FOUND or NOT_FOUND."""


class Conflict(MemlaneApiError):
    """MEMORY_KIND_MISMATCH or IDEMPOTENCY_CONFLICT."""


class QuotaExceeded(Conflict):
    """QUOTA_EXCEEDED: forget some first."""


class PayloadTooLarge(MemlaneApiError):
    """PAYLOAD_TOO_LARGE: over 512 KiB."""


class RateLimited(MemlaneApiError):
    """RATE_LIMITED: also after the retries."""


class Unavailable(MemlaneApiError):
    """ENTITLEMENT_UNRESOLVED, EMBEDDER_UNAVAILABLE, STORAGE_UNAVAILABLE or UNREACHABLE: also after the retries."""


ERRORS: Mapping[str, type[MemlaneApiError]] = {
    "MEMORY_VALIDATION_ERROR": ValidationFailed,
    "SECRET_DETECTED": SecretDetected,
    "UNAUTHENTICATED": Unauthenticated,
    "MEMORY_GRANT_DENIED": Denied,
    "LANE_READ_ONLY": Denied,
    "LANE_OFF": Denied,
    "MEMORY_NOT_ENTITLED": Denied,
    "MEMORY_NOT_FOUND": NotFound,
    "NOT_FOUND": NotFound,
    "MEMORY_KIND_MISMATCH": Conflict,
    "IDEMPOTENCY_CONFLICT": Conflict,
    "QUOTA_EXCEEDED": QuotaExceeded,
    "PAYLOAD_TOO_LARGE": PayloadTooLarge,
    "RATE_LIMITED": RateLimited,
    "ENTITLEMENT_UNRESOLVED": Unavailable,
    "EMBEDDER_UNAVAILABLE": Unavailable,
    "STORAGE_UNAVAILABLE": Unavailable,
    "UNREACHABLE": Unavailable,
}
"""The exception of each code; of any other it is `MemlaneApiError`."""
