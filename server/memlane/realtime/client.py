"""One connected client: its protocol state, its subscriptions and its wire."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from memlane.domain.stream import ChannelKey, JoinClaims
from memlane.observability import metrics
from memlane.phoenix.close_codes import CloseCode
from memlane.phoenix.effects import ChannelLeft, Close, Effect, JoinRequested, Send
from memlane.phoenix.frames import Ref
from memlane.phoenix.protocol import Connection
from memlane.realtime.wire import Wire, text_frame
from memlane.usecases.ports import StoredMemory

if TYPE_CHECKING:
    from memlane.realtime.hub import Hub

QUEUE_BYTES = 1024 * 1024
"""Bound of a socket's queue (realtime.md, Load)."""
HOLD_SECONDS = 8.0
"""Longest wait of upgrade and first join together: the stock client gives up 10 s after it connected."""

State = Literal["joining", "behind", "live", "ended"]


@dataclass(slots=True, eq=False, kw_only=True)
class Item:
    """What the hub's workers look at, one worker at a time.

    Attributes:
        queued: Whether a worker will look at it.
        busy: Whether one does.
        again: Whether it is to be looked at once more when that one is done.
    """

    queued: bool = False
    busy: bool = False
    again: bool = False


@dataclass(slots=True, eq=False)
class Subscription(Item):
    """One join of one topic.

    Attributes:
        client: Whose it is.
        topic: The topic.
        join_ref: Names the join.
        deadline: Until when a passing fault may hold the join, in monotonic seconds.
        payload: What the client sent with the join.
        state: ``joining`` until it is answered, ``behind`` while it catches up from the table, ``live``, ``ended``.
        key: The channel, once it is known.
        position: The seq up to which the socket was handed every change.
        fenced: Whether late answers may overwrite newer rows in this client (all but our own).
        visible: While a long way is caught up: the ids that a list shows.
        head: The channel's seq at the join.
        counted: Whether it is in the metric.
    """

    client: "Client"
    topic: str
    join_ref: Ref
    deadline: float
    payload: Mapping[str, Any]
    state: State = "joining"
    key: ChannelKey | None = None
    position: int = 0
    fenced: bool = True
    visible: frozenset[str] | None = None
    head: int = 0
    counted: bool = False

    def is_shown(self, row: StoredMemory) -> bool:
        """Whether a row is sent while it catches up. What changed after the join always is: no list told of it."""
        return self.visible is None or not row.memory.live or row.seq > self.head or row.memory.id in self.visible


@dataclass(slots=True, eq=False)
class Client:
    """A socket after its upgrade. Nothing here waits."""

    wire: Wire
    claims: JoinClaims
    hub: "Hub"
    began: float
    connection: Connection = field(init=False)
    subscriptions: dict[tuple[str, Ref], Subscription] = field(default_factory=dict)
    joined_once: bool = False

    def __post_init__(self) -> None:
        """Start the protocol and hear when the socket has drained."""
        self.connection = Connection(self.began)
        self.wire.on_drained = self._drained

    def carry_out(self, effects: Iterable[Effect], now: float) -> None:
        """Do what the protocol asks for, in order."""
        for effect in effects:
            match effect:
                case Send(text):
                    self.reply(text)
                case JoinRequested(topic, join_ref, _, payload):
                    begin = now if self.joined_once else self.began
                    self.joined_once = True
                    joining = Subscription(self, topic, join_ref, begin + HOLD_SECONDS, payload)
                    self.subscriptions[topic, join_ref] = joining
                    self.hub.enqueue(joining)
                case ChannelLeft(topic, join_ref):
                    self._end(self.subscriptions.pop((topic, join_ref), None))
                case Close(code, reason):
                    self.wire.close(code, reason)

    def reply(self, text: str) -> None:
        """Answer the client. One that asks without ever reading is cut."""
        if self.wire.buffered() > 2 * QUEUE_BYTES:
            metrics.STREAM_OVERFLOWS.inc()
            self.wire.abort()
            return
        self.wire.write(text_frame(text.encode()))

    def close(self, code: CloseCode, reason: str) -> None:
        """End the socket."""
        self.carry_out(self.connection.close(code, reason), 0.0)

    def leave_all(self) -> None:
        """The socket is gone: end every subscription."""
        self.wire.on_drained = None
        for subscription in self.subscriptions.values():
            self._end(subscription)
        self.subscriptions.clear()

    def _end(self, subscription: Subscription | None) -> None:
        if subscription is not None:
            self.hub.unsubscribe(subscription)
            subscription.state = "ended"

    def _drained(self) -> None:
        for subscription in self.subscriptions.values():
            if subscription.state == "behind":
                self.hub.enqueue(subscription)
