"""The fault timeline that all users share. Its order and gaps come from the seed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

from oracle.fleet import Fleet, Gateway, eventually

REDIS_SECONDS = 5.0
STALL_SECONDS = 8.0
OUTAGE_SECONDS = 2.2
"""The stock client survives 2.8 s and gives up after 3.1 s (realtime.md)."""
SETTLE_SECONDS = 30.0
FLOOD_ROWS = 150


class Faults:
    """Faults of one fleet, each of which ends what it began.

    Args:
        fleet: What to break.
        random: From the seed.
        key: Runtime key of the users' project.
        users: Their ids.
        say: Tells what happens.
    """

    def __init__(self, fleet: Fleet, random: Random, key: str, users: list[str], say: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._random = random
        self._key = key
        self._users = users
        self._say = say
        self.table: dict[str, Callable[[], Awaitable[None]]] = {
            "some sockets cut": self.cut_some,
            "all sockets cut": self.cut_all,
            "a gateway killed": self.kill_gateway,
            "all gateways replaced": self.replace_gateways,
            "redis stopped": self.stop_redis,
            "redis frozen": self.freeze_redis,
            "redis subscriptions killed": self.kill_subscriptions,
            "redis publishers killed": self.kill_publishers,
            "postgres restarted": self.restart_postgres,
            "a reader stalls": self.stall_reader,
        }
        self.order = self._shuffled()

    def _shuffled(self) -> list[str]:
        # Each once, and the ones that lose something twice.
        again = ["some sockets cut", "a gateway killed", "redis subscriptions killed", "redis publishers killed"]
        order = [*self.table, *again]
        self._random.shuffle(order)
        return order

    async def run(self) -> AsyncIterator[str]:
        """Carry out the timeline; now and then sockets are cut in the middle of another fault."""
        for name in self.order:
            self._say(name)
            together = [self.table[name]()]
            # In the outage the client has one try left: a cut would take that too.
            if self._random.random() < 0.4 and name != "all gateways replaced":
                together.append(self._later(self._random.uniform(0, 3)))
            await asyncio.gather(*together)
            await self._settled()
            yield name
            await asyncio.sleep(self._random.uniform(0.5, 4))

    async def _settled(self) -> None:
        # Five failed tries in a row end a client for good: one outage must be over before the next begins.
        await eventually(self._fleet.driver.connected, "every client is connected again", SETTLE_SECONDS)

    async def _later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.cut_some()

    async def cut_some(self) -> None:
        """A third of the sockets."""
        self._fleet.balancer.cut(1 / 3, self._random)

    async def cut_all(self) -> None:
        """Every socket."""
        self._fleet.balancer.cut()

    async def kill_gateway(self) -> None:
        """SIGKILL; a new one starts at once."""
        self._fleet.kill_gateway(self._random.choice(self._fleet.gateways))
        await self._fleet.add_gateway()

    async def replace_gateways(self) -> None:
        """SIGKILL of both; nothing answers for a while."""

        async def kill(gateway: Gateway) -> None:
            gateway.process.kill()

        await self._fleet.replace_all(outage_seconds=OUTAGE_SECONDS, end=kill)

    async def stop_redis(self) -> None:
        """Gone for 5 s."""
        await self._fleet.redis.stop()
        await asyncio.sleep(REDIS_SECONDS)
        await self._fleet.redis.start()

    async def freeze_redis(self) -> None:
        """Silent for 5 s, with its connections open; then it carries out what was sent meanwhile."""
        self._fleet.redis.freeze()
        await asyncio.sleep(REDIS_SECONDS)
        self._fleet.redis.thaw()

    async def kill_subscriptions(self) -> None:
        """CLIENT KILL TYPE pubsub."""
        await self._fleet.redis.kill_clients("pubsub")

    async def kill_publishers(self) -> None:
        """CLIENT KILL TYPE normal: the hints on their way are lost, and no gateway notices."""
        for _ in range(10):
            await self._fleet.redis.kill_clients("normal")
            await asyncio.sleep(0.1)

    async def restart_postgres(self) -> None:
        """A fast shutdown, and a start."""
        await self._fleet.postgres.stop()
        await self._fleet.postgres.start()

    async def stall_reader(self) -> None:
        """One user's sockets are not read, while that user's memories fill every buffer on the way."""
        user = self._random.choice(self._users)
        links = self._fleet.balancer.stall(user)
        flood = asyncio.create_task(self._fleet.flood(self._key, user, FLOOD_ROWS, self._random))
        await asyncio.sleep(STALL_SECONDS)
        for link in links:
            link.reading.set()
        await flood
