"""The four measurements of the stream. docs/benchmarks.md says how each is made."""

import http.client
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import asyncpg
import orjson

from memlane.bench.deployment import HOST, BenchFailed, Deployment
from memlane.bench.stream_processes import Mark, Peer, resident_kib
from memlane.bench.stream_readers import Latencies, Line, Load
from memlane.bench.stream_report import FanOut, Idle, Stall, StallRound

OWN_JOIN = {"fence": False, "last": None}
"""How Memlane's own client joins: it compares positions itself, so that nothing is sent again."""
STOCK_JOIN: dict[str, Any] = {}
"""How the published client joins: rows are sent again where a late answer may have overwritten them."""
SETTLE_SECONDS = 1.0
LONG_TEXT = "🦉🌲" * 4_000
"""Content of the stalled reader's events: 32 KB of UTF-8, so that its queue is full within seconds."""

_MEMORIES = """
select c.user_id, m.id::text from memories m join channels c on (c.project_id, c.id) = (m.project_id, m.channel_id)
 where c.scope = 'user' order by m.id
"""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How much is measured.

    Attributes:
        sockets: Of the fan-out, and of the idle ones.
        events: Events of one round of the fan-out.
        rounds: Pairs of rounds of the fan-out.
        users: Users of the latency, each with a socket.
        per_second: Their writes.
        seconds: How long.
        readers: Sockets of which one stalls.
        reader_per_second: Writes that each of them reads.
        reader_seconds: How long a round is.
        reader_rounds: Pairs of rounds without and with a stalled one.
        fill: Writes before each of these rounds, which do not count: the kernel reads some 4 MB for a stalled socket.
    """

    sockets: int
    events: int
    rounds: int
    users: int
    per_second: float
    seconds: float
    readers: int
    reader_per_second: float
    reader_seconds: float
    reader_rounds: int
    fill: int

    @property
    def open_files(self) -> int:
        """Sockets that one process has open at once: the readers of both sides of the fan-out."""
        return max(2 * self.sockets, self.users, self.readers)


@dataclass(frozen=True, slots=True)
class Service:
    """The server that is measured."""

    deployment: Deployment
    process_id: int
    metrics_port: int
    first_write: Mark

    def ask(self, method: str, path: str, user: str = "user-0", body: dict[str, Any] | None = None) -> Any:
        """One request, over a connection of its own.

        Raises:
            BenchFailed: It was refused.
        """
        connection = http.client.HTTPConnection(HOST, self.deployment.port, timeout=30)
        content = b"" if body is None else orjson.dumps(body)
        headers = self._headers(user)
        if content:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, content or None, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status not in {200, 201, 204}:
            raise BenchFailed(f"{method} {path} was answered {answer.status}: {text[:200].decode()}")
        return orjson.loads(text) if text else None

    def toggle(self, memory_id: str, user: str, *, restore: bool) -> bytes:
        """A request that retires a memory, or brings it back: a write with its event, and without an embedding."""
        line = f"POST /api/memories/{memory_id}/restore" if restore else f"DELETE /api/memories/{memory_id}"
        head = "".join(f"{name}: {value}\r\n" for name, value in self._headers(user).items())
        return f"{line} HTTP/1.1\r\nHost: {HOST}\r\n{head}\r\n".encode()

    def save_for_all(self, content: str) -> str:
        """Save a memory of the project, and give its id."""
        draft = {"content": content, "kind": "topical", "scope": "project"}
        return str(self.ask("POST", "/api/memories", body=draft)["id"])

    def lines(self, count: int, scopes: Sequence[str], join: dict[str, Any], stalling: int | None = None) -> list[Line]:
        """Sockets of as many users, joined to their own channel or the project's."""
        lines = []
        for place in range(count):
            ticket = self.ask("POST", "/api/memories/subscribe", f"user-{place}")
            topics = {
                "user": f"user_meta:memories:{ticket['joinCode']}",
                "project": f"project_meta:memories:{ticket['projectJoinCode']}",
            }
            token = ticket["joinToken" if "user" in scopes else "projectJoinToken"]
            joins = tuple(
                orjson.dumps([str(ref), str(ref), topics[scope], "phx_join", join]).decode()
                for ref, scope in enumerate(scopes, start=1)
            )
            query = urlencode({"join_token": token, "vsn": "2.0.0"})
            lines.append(Line(self.deployment.port, f"/client/websocket?{query}", joins, may_stall=place == stalling))
        return lines

    def resident_kib(self) -> int:
        """Its memory."""
        return resident_kib(self.process_id)

    def overflows(self) -> int:
        """How often a socket's queue was full, since its start."""
        with urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        found = re.search(r"^memlane_stream_queue_overflows_total (\S+)", text, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))

    def _headers(self, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.deployment.key}", "X-Cpki-User-Id": user}


def measure_fan_out_and_memory(
    service: Service, readers: Peer, floor: Peer, floor_write: Mark, plan: StreamPlan
) -> tuple[Idle, FanOut]:
    """Idle sockets first; then one event to all of them, in turns with the bare broadcast of the same bytes."""
    memory_id = service.save_for_all("The release train leaves every second Tuesday; the notes are due on Monday.")
    topics = ("user", "project")
    # The first sockets load what every later one shares.
    readers.call("open", "warm", service.lines(10, topics, OWN_JOIN))
    readers.call("close", "warm")
    lines = service.lines(plan.sockets, topics, OWN_JOIN)
    time.sleep(SETTLE_SECONDS)
    before = service.resident_kib()
    readers.call("open", "service", lines)
    time.sleep(SETTLE_SECONDS)
    idle = Idle(plan.sockets, before, service.resident_kib())

    def toggle(*, restore: bool) -> float:
        readers.call("expect", "service")
        path = f"/api/memories/{memory_id}"
        service.ask("POST" if restore else "DELETE", f"{path}/restore" if restore else path)
        done: float = readers.call("done", "service")
        return done - service.first_write.get()

    def event() -> float:
        toggle(restore=False)
        return toggle(restore=True)

    event()
    text: str = readers.call("newest", "service")
    port = floor.call("listen")
    readers.call("open", "floor", [Line(port, "/")] * plan.sockets)

    def bare() -> float:
        readers.call("expect", "floor")
        floor.call("send", text)
        done: float = readers.call("done", "floor")
        return done - floor_write.get()

    def rate(act: Callable[[], float]) -> float:
        return plan.sockets / median(act() for _ in range(plan.events))

    pairs = []
    for _ in range(plan.rounds + 1):
        readers.call("beat", "service")
        pairs.append((rate(bare), rate(event)))
    readers.call("close", "service")
    readers.call("close", "floor")
    # The first pair warms both up.
    floors, ours = zip(*pairs[1:], strict=True)
    return idle, FanOut(plan.sockets, len(text.encode()), list(floors), list(ours))


async def memories_of(deployment: Deployment) -> list[tuple[str, str]]:
    """Each user's memory: (user, id)."""
    connection = await asyncpg.connect(deployment.dsn, timeout=10)
    try:
        return [(row[0], row[1]) for row in await connection.fetch(_MEMORIES)]
    finally:
        await connection.close()


def measure_latency(
    service: Service, readers: Peer, memories: Sequence[tuple[str, str]], plan: StreamPlan
) -> tuple[Latencies, Latencies]:
    """Writes of many users in turn at a steady rate, each user with a socket: of our client, then of the published."""
    writes = _toggles(service, memories)
    found: list[Latencies] = []
    for join in (OWN_JOIN, STOCK_JOIN):
        readers.call("open", "users", service.lines(plan.users, ("user",), join))
        for seconds in (plan.seconds / 4, plan.seconds):
            # The first, shorter one warms up.
            requests = [next(writes) for _ in range(int(plan.per_second * seconds))]
            last: Latencies = readers.call("drive", "users", Load(service.deployment.port, requests, plan.per_second))
        found.append(last)
        readers.call("close", "users")
    own, published = found
    return own, published


def measure_stall(service: Service, readers: Peer, plan: StreamPlan) -> Stall:
    """Events of the project to many readers, in turns without and with one that stops reading."""
    ids = [service.save_for_all(f"{number}: {LONG_TEXT}") for number in range(4)]
    stalled = plan.readers // 2
    readers.call("open", "readers", service.lines(plan.readers, ("project",), OWN_JOIN, stalled))
    writes = _toggles(service, [("user-0", memory_id) for memory_id in ids])

    def round_of(writes_of_it: int, per_second: float) -> Latencies:
        requests = [next(writes) for _ in range(writes_of_it)]
        load = Load(service.deployment.port, requests, per_second, connections=2)
        latencies: Latencies = readers.call("drive", "readers", load, stalled)
        return latencies

    def filled_round() -> Latencies:
        round_of(plan.fill, 2 * plan.reader_per_second)
        return round_of(int(plan.reader_per_second * plan.reader_seconds), plan.reader_per_second)

    filled_round()
    before = service.overflows()
    rounds = []
    for _ in range(plan.reader_rounds):
        readers.call("beat", "readers")
        without = filled_round()
        calm = service.resident_kib()
        readers.call("stall", "readers", stalled)
        slow = filled_round()
        growth = (service.resident_kib() - calm) / 1024
        rounds.append(StallRound(without, slow, growth, readers.call("catch_up", "readers", stalled)))
    readers.call("close", "readers")
    return Stall(plan.readers, rounds, service.overflows() - before)


def _toggles(service: Service, memories: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    """Retire each memory in turn, then bring each back, for ever."""
    restore = False
    while True:
        for user, memory_id in memories:
            yield service.toggle(memory_id, user, restore=restore)
        restore = not restore
