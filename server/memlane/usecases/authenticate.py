"""Who calls, and is their organization entitled? Resolved on every request, fail closed.

Keys and entitlements are cached for at most 4 s, so that a revocation, a lane change or a withdrawn
entitlement holds within 5 s in every process; past that nothing is served stale: if the database does not
answer then, the request is denied.
"""

import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from memlane.domain.caller import Caller, KeyRecord
from memlane.domain.entitlement import Entitlement, decide_entitlement
from memlane.domain.errors import Unauthenticated
from memlane.usecases.access import enforce
from memlane.usecases.ports import Services
from memlane.usecases.rate_limits import RateLimits

CACHE_SECONDS = 4.0
"""Longest life of a cached key or entitlement; the promise to callers is 5 s (rest.md)."""
CACHE_MAX = 10_000
"""Most cached entries of each kind; the oldest goes first."""

K = TypeVar("K")
V = TypeVar("V")


class BriefCache(Generic[K, V]):
    """A bounded cache whose entries live for 4 s and are never served past that."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._monotonic = monotonic

    async def get(self, key: K, resolve: Callable[[], Awaitable[V]]) -> V:
        """The entry, resolved anew when there is none young enough. A failure is not cached."""
        # The age counts from before the look-up: what was read may be as old as that.
        asked_at = self._monotonic()
        entry = self._entries.get(key)
        if entry is not None and asked_at - entry[0] < CACHE_SECONDS:
            return entry[1]
        self._entries.pop(key, None)
        value = await resolve()
        self._entries[key] = (asked_at, value)
        while len(self._entries) > CACHE_MAX:
            self._entries.popitem(last=False)
        return value


class Gate:
    """The checks of every request that need no body: the key, the entitlement, the rate."""

    def __init__(
        self, services: Services, monotonic: Callable[[], float] = time.monotonic, limits: RateLimits | None = None
    ) -> None:
        self._services = services
        self._limits = limits
        self._keys: BriefCache[str, KeyRecord | None] = BriefCache(monotonic)
        self._entitlements: BriefCache[str, Entitlement] = BriefCache(monotonic)

    async def authenticate(self, short: str, secret_sha256: bytes, project: str) -> KeyRecord:
        """The usable key of this public id, secret and project slug.

        Raises:
            Unauthenticated: There is none; unknown, revoked and expired look the same.
            StorageUnavailable: It cannot be told now.
        """
        key = await self._keys.get(short, lambda: self._services.keys.find_key(short))
        if (
            key is None
            or not hmac.compare_digest(key.secret_sha256, secret_sha256)
            or key.project != project
            or not key.usable(self._services.clock.now())
        ):
            raise Unauthenticated
        return key

    async def entitlement(self, key: KeyRecord) -> Entitlement:
        """What the key's organization is entitled to.

        Raises:
            EntitlementUnresolved, StorageUnavailable: It cannot be told now: deny.
        """
        return await self._entitlements.get(
            key.organization_id,
            lambda: self._services.entitlements.resolve(key.organization_id, key.organization),
        )

    async def require_rate(self, caller: Caller, *, requests: int = 1, writes: int = 0) -> None:
        """Charge a caller, where the deployment has limits.

        Raises:
            RateLimited: See `RateLimits.require`.
        """
        if self._limits is not None:
            await self._limits.require(caller, requests=requests, writes=writes)

    async def require_memory(self, key: KeyRecord) -> None:
        """Deny unless the organization is entitled to memory now.

        Raises:
            NotEntitled: It is not.
            EntitlementUnresolved, StorageUnavailable: It cannot be told now.
        """
        entitlement = await self.entitlement(key)
        enforce(
            decide_entitlement(
                entitlement, organization=key.organization, feature="memory", now=self._services.clock.now()
            )
        )
