"""Errors of the domain as HTTP answers. One table; a code that is not in it is an internal error."""

from starlette.responses import Response

from memlane.domain.errors import (
    EmbedderUnavailable,
    EntitlementUnresolved,
    GrantDenied,
    IdempotencyConflict,
    KindMismatch,
    LaneOff,
    LaneReadOnly,
    MemlaneError,
    MemoryNotFound,
    NotEntitled,
    PayloadTooLarge,
    QuotaExceeded,
    RateLimited,
    StorageRejected,
    StorageUnavailable,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)
from memlane.observability import metrics
from memlane.rest.bodies import encode, error_body


class NoSuchRoute(MemlaneError):
    """No such route; the routes are listed at /api/docs."""

    code = "NOT_FOUND"


class MethodNotAllowed(MemlaneError):
    """This route does not take that method."""

    code = "METHOD_NOT_ALLOWED"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"This route takes only {', '.join(allowed)}.")
        self.allowed = allowed


STATUS_OF: dict[type[MemlaneError], int] = {
    ValidationFailed: 400,
    Unauthenticated: 401,
    GrantDenied: 403,
    LaneReadOnly: 403,
    LaneOff: 403,
    NotEntitled: 404,
    MemoryNotFound: 404,
    NoSuchRoute: 404,
    MethodNotAllowed: 405,
    KindMismatch: 409,
    IdempotencyConflict: 409,
    QuotaExceeded: 409,
    PayloadTooLarge: 413,
    RateLimited: 429,
    StorageRejected: 500,
    EntitlementUnresolved: 503,
    EmbedderUnavailable: 503,
    StorageUnavailable: 503,
}
"""HTTP status of each error and of its subclasses (rest.md, Errors)."""


def error_response(fault: MemlaneError, request_id: str) -> Response:
    """The answer that an error stands for."""
    status = next((STATUS_OF[kind] for kind in type(fault).__mro__ if kind in STATUS_OF), 500)
    response = Response(encode(error_body(fault, request_id)), status_code=status, media_type="application/json")
    if isinstance(fault, Unavailable | RateLimited):
        response.headers["Retry-After"] = str(fault.retry_after_seconds)
    if isinstance(fault, Unauthenticated):
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(fault, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(fault.allowed)
    metrics.DENIALS.labels(fault.code).inc()
    return response
