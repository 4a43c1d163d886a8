"""Rates of all processes together, in Redis; implements `usecases.ports.RateLimiter`."""

import time
from collections.abc import Callable, Sequence

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from memlane.domain.rates import Charge
from memlane.limits.local import LocalLimiter
from memlane.observability import metrics

ANSWER_SECONDS = 0.1
"""Longest wait for Redis: a limit must not make requests slow."""
PAUSE_SECONDS = 1.0
"""After a fault Redis is not asked for so long."""
PREFIX = "memlane:rate:"

_SCRIPT = """
-- KEYS: subjects. ARGV: for each, the microseconds that it uses up and its tolerance in microseconds.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ahead = {}
for place, key in ipairs(KEYS) do
  local used = tonumber(redis.call('GET', key) or '0')
  ahead[place] = math.max(used, now) + tonumber(ARGV[2 * place - 1])
  local wait = ahead[place] - tonumber(ARGV[2 * place]) - now
  if wait > 0 then return {place, wait} end
end
for place, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.0f', ahead[place]), 'PX', math.ceil((ahead[place] - now) / 1000) + 1)
end
return {0, 0}
"""


class RedisLimiter:
    """One call for all charges of a request. While Redis does not answer, this process's own rates hold."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._script = self._redis.register_script(_SCRIPT)
        self._own = LocalLimiter(monotonic)
        self._monotonic = monotonic
        self._pause_until = 0.0

    async def charge(self, charges: Sequence[Charge]) -> tuple[Charge, float] | None:
        """See `RateLimiter.charge`."""
        if self._monotonic() >= self._pause_until:
            numbers = [int(seconds * 1e6) for one in charges for seconds in (one.seconds, one.rate.tolerance)]
            try:
                place, wait = await self._script(keys=[PREFIX + one.key for one in charges], args=numbers)
            except (RedisError, OSError):
                self._pause_until = self._monotonic() + PAUSE_SECONDS
                metrics.RATE_FALLBACKS.inc()
            else:
                return None if place == 0 else (charges[place - 1], wait / 1e6)
        return self._own.charge_now(charges)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._redis.aclose()
