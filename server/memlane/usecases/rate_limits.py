"""How much a caller may ask: requests for each key and user, writes for each lane."""

from dataclasses import dataclass
from hashlib import sha256

from memlane.domain.caller import Caller
from memlane.domain.errors import RateLimited
from memlane.domain.rates import Charge, Rate, retry_after_seconds
from memlane.usecases.ports import RateLimiter


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of a deployment; None: none."""

    limiter: RateLimiter
    requests: Rate | None = None
    lane_writes: Rate | None = None

    async def require(self, caller: Caller, *, requests: int = 1, writes: int = 0) -> None:
        """Charge a caller.

        Args:
            caller: Who asks.
            requests: Charged to the key and user.
            writes: Charged to the key's lane.

        Raises:
            RateLimited: It is too much; nothing was charged.
        """
        charges = []
        if self.requests is not None and requests:
            # Hashed, as a user's id may be a name or an address.
            user = sha256(caller.user_id.encode()).hexdigest()[:32]
            key = f"{{{caller.project_id}}}:user:{caller.key.short}:{user}"
            charges.append(Charge(key, self.requests, requests, "requests of this key and user"))
        if self.lane_writes is not None and writes:
            key = f"{{{caller.project_id}}}:lane:{caller.key.lane.id}"
            charges.append(Charge(key, self.lane_writes, writes, "writes of this key's lane"))
        if not charges:
            return
        refused = await self.limiter.charge(charges)
        if refused is not None:
            raise RateLimited(refused[0].what, retry_after_seconds=retry_after_seconds(refused[1]))
