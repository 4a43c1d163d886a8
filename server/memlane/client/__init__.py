"""A small typed client for scripts, over REST; it needs nothing of Memlane but this package, and httpx.

    from memlane.client import Memlane

    with Memlane("http://127.0.0.1:4201", key, user="ada") as memory:
        memory.save("Prefers metric units.", kind="operational")
        print(memory.recall("which units does the user want?")[0].content)

`AsyncMemlane` has the same methods to be awaited. What did not get through (no connection, 429, 502 to 504) is tried
again, at most 3 times, as late as `Retry-After` says; a save carries an `Idempotency-Key`, so that it is made once. The
contract's errors are exceptions, named as its codes are. Objects are safe to share between threads or tasks.
"""

from memlane.client.calls import Draft, Kind, Memory, Scope
from memlane.client.clients import AsyncMemlane, Memlane
from memlane.client.errors import (
    Conflict,
    Denied,
    MemlaneApiError,
    NotFound,
    PayloadTooLarge,
    QuotaExceeded,
    RateLimited,
    SecretDetected,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)

__all__ = [
    "AsyncMemlane",
    "Conflict",
    "Denied",
    "Draft",
    "Kind",
    "Memlane",
    "MemlaneApiError",
    "Memory",
    "NotFound",
    "PayloadTooLarge",
    "QuotaExceeded",
    "RateLimited",
    "Scope",
    "SecretDetected",
    "Unauthenticated",
    "Unavailable",
    "ValidationFailed",
]
