"""Hints over Redis: one publisher and one supervised subscription for each process.

While Redis does not answer, hints wait in a bounded queue and no request waits for them. A probe goes round twice
a second: while none comes back the subscription counts as broken, is opened anew, and every feed is read from the
table.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import orjson
import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from memlane.domain.caller import Caller
from memlane.domain.errors import Misconfigured, StorageUnavailable
from memlane.domain.events import SEQ_MAX
from memlane.domain.stream import ChannelKey, Hint, RowChange
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.realtime.fanout import hints_of_list, hints_of_write
from memlane.usecases.ports import ChannelHead

HINTS = "memlane:hints"
"""The pub/sub channel of all hints; a message is a JSON list of them."""
QUEUE_MAX = 10_000
"""Most hints that wait for Redis; of more, the oldest are dropped and counted."""
BATCH_MAX = 200
ANSWER_SECONDS = 1.0
"""Longest wait for one answer of Redis."""
PROBE_SECONDS = 0.5
SILENCE_SECONDS = 2.0
"""After this long without a probe the subscription counts as broken."""
RETRY_SECONDS = 0.2


def check_redis_url(url: str) -> None:
    """Whether the library can make a connection of this URL; none is opened.

    Raises:
        Misconfigured: It cannot: a port, a path or an option after the `?` is wrong.
    """
    try:
        pool = _connect(url).connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except (ValueError, TypeError, RedisError):
        # Not chained: the library's message quotes the URL. What it does not know becomes a wrong argument.
        raise Misconfigured("is not a URL that Redis can be reached by: redis://user:password@host:6379/0") from None


def _connect(url: str) -> "redis.Redis":
    # No retry of the library's own: it would subscribe again in silence, and what was lost would not be noticed.
    return redis.Redis.from_url(
        url,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


def encode_hints(hints: Sequence[Hint]) -> bytes:
    """Hints as one message."""
    return orjson.dumps(
        [
            {
                "p": hint.key.project_id,
                "c": hint.key.channel_id,
                "e": hint.epoch,
                "s": hint.seq,
                "f": hint.fence,
                "m": hint.moved,
                "t": hint.sent_at,
                "d": hint.payload,
            }
            for hint in hints
        ]
    )


def decode_hints(message: bytes) -> list[Hint]:
    """The inverse of `encode_hints`; rubbish gives no hints, as the sweep finds what they meant."""
    try:
        return [_hint_of(one) for one in orjson.loads(message)]
    except (KeyError, TypeError, ValueError):
        return []


def _hint_of(one: Any) -> Hint:
    # Strictly: what a process of another version means by other types must not end this one's subscription.
    texts, flags = (one["p"], one["c"], one["e"]), (one["f"], one["m"])
    if not all(type(text) is str for text in texts) or not all(type(flag) is bool for flag in flags):
        raise TypeError
    seq, payload, sent_at = one["s"], one["d"], one["t"]
    if type(seq) is not int or not 0 <= seq <= SEQ_MAX or not (payload is None or type(payload) is dict):
        raise TypeError
    if type(sent_at) not in {float, int}:
        raise TypeError
    return Hint(ChannelKey(one["p"], one["c"]), one["e"], seq, payload, one["f"], one["m"], float(sent_at))


async def examine(url: str) -> None:
    """Do once with Redis what a service does: publish a message of no hints, and subscribe.

    Args:
        url: One that `check_redis_url` takes.

    Raises:
        StorageUnavailable: Redis does not answer, or forbids it; says which kind of fault.
    """
    connection = _connect(url)
    try:
        async with connection.pubsub() as subscription:
            await subscription.subscribe(HINTS)
            # The first message is the answer to the subscription, or its refusal.
            if await subscription.get_message(timeout=ANSWER_SECONDS) is None:
                raise StorageUnavailable("does not answer in time: check REDIS_URL")
        await connection.publish(HINTS, encode_hints([]))
    except (RedisError, OSError, UnicodeError) as fault:
        raise StorageUnavailable(f"cannot be used ({type(fault).__name__}): check REDIS_URL") from None
    finally:
        await connection.aclose()


class RedisPublisher:
    """Implements `usecases.ports.Hints` over Redis; `run` is a supervised loop."""

    def __init__(self, url: str) -> None:
        self._redis = _connect(url)
        self._queue: deque[Hint] = deque(maxlen=QUEUE_MAX)
        self._some = asyncio.Event()

    def committed(self, caller: Caller, channel: ChannelHead, changes: Sequence[RowChange]) -> None:
        """See `Hints.committed`."""
        for hint in hints_of_write(caller, channel, changes, with_payload=True):
            self._put(hint)

    def shown(self, project_id: str, heads: Sequence[ChannelHead]) -> None:
        """See `Hints.shown`."""
        for hint in hints_of_list(project_id, heads):
            self._put(hint)

    def _put(self, hint: Hint) -> None:
        if len(self._queue) == QUEUE_MAX:
            metrics.HINTS_DROPPED.inc()
        self._queue.append(hint)
        self._some.set()

    async def run(self) -> None:
        """Publish what is queued, for ever. A hint may arrive twice, which does no harm."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
                await self._publish(encode_hints(batch))

    async def _publish(self, message: bytes) -> None:
        # Not given up: a lost change is found by the sweep, but the fence of a list that is under way by nobody
        # as long as the gateways hear everything else. Meanwhile the queue behind it is bounded.
        while True:
            try:
                await self._redis.publish(HINTS, message)
            except (RedisError, OSError):
                metrics.HINT_RETRIES.inc()
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def check(self) -> None:
        """Ask Redis for an answer.

        Raises:
            StorageUnavailable: It gives none.
        """
        try:
            await self._redis.ping()
        except (RedisError, OSError) as fault:
            raise StorageUnavailable("Redis does not answer") from fault

    async def aclose(self) -> None:
        """Close the connection."""
        await self._redis.aclose()


class RedisSubscription:
    """The process's one subscription.

    Args:
        url: Redis.
        receive: Takes each hint; never waits.
        lost: Called whenever hints may have been lost.
    """

    def __init__(self, url: str, receive: Callable[[Hint], None], lost: Callable[[], None]) -> None:
        self._redis = _connect(url)
        self._receive = receive
        self._lost = lost
        self._probe_channel = f"memlane:probe:{uuid4().hex}"
        self._heard_at = 0.0
        self._complained = False

    @property
    def healthy(self) -> bool:
        """Whether a probe went round within the last 2 s."""
        return time.monotonic() - self._heard_at < SILENCE_SECONDS

    async def check(self) -> None:
        """For readiness.

        Raises:
            StorageUnavailable: No probe went round lately.
        """
        if not self.healthy:
            raise StorageUnavailable("hints do not arrive over Redis; changes are found by the sweep, up to 2 s late")

    async def run(self) -> None:
        """Keep the subscription, for ever."""
        while True:
            try:
                await self._listen()
            except (RedisError, OSError, TimeoutError) as fault:
                self._heard_at = 0.0
                metrics.HINT_RECONNECTS.inc()
                if not self._complained:
                    self._complained = True
                    log.warning("hints_lost", cause=type(fault).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        async with self._redis.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(HINTS, self._probe_channel)
            await self._redis.publish(self._probe_channel, b"1")
            # From here on nothing is missed; what came before is read from the table.
            self._lost()
            started = time.monotonic()
            while True:
                message = await subscription.get_message(timeout=PROBE_SECONDS)
                if message is not None:
                    self._take(message)
                now = time.monotonic()
                if now - max(self._heard_at, started) > SILENCE_SECONDS:
                    raise TimeoutError

    async def run_probe(self) -> None:
        """Send a probe round twice a second, for ever."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                await self._redis.publish(self._probe_channel, b"1")
            except (RedisError, OSError):
                continue

    def _take(self, message: dict[str, object]) -> None:
        channel, data = message["channel"], message["data"]
        if channel == self._probe_channel.encode():
            self._heard_at = time.monotonic()
            self._complained = False
        elif isinstance(data, bytes):
            now = time.time()
            for hint in decode_hints(data):
                if hint.sent_at:
                    metrics.HINT_LAG_SECONDS.observe(max(0.0, now - hint.sent_at))
                self._receive(hint)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()
