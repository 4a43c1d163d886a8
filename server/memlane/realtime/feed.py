"""A channel with subscribers in this process, and the frames of its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from memlane.domain.events import Change, check_payload, present_state
from memlane.domain.memory import Position
from memlane.domain.stream import ChannelKey
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.phoenix.frames import encode_broadcast
from memlane.realtime.client import Item, Subscription
from memlane.realtime.wire import text_frame
from memlane.usecases.ports import StoredMemory


@dataclass(slots=True, eq=False)
class Feed(Item):
    """A channel with subscribers here.

    Attributes:
        key: The channel.
        topic: Its topic.
        epoch: Its epoch.
        organization_id: The tenant's organization, for the events.
        last: The seq up to which every live subscription was served.
        wanted: The highest seq that a hint or the sweep spoke of.
        live: Subscriptions that get what comes next.
        catching_up: Those that read the table by themselves.
        resends: Those that are reading the table.
        moved: While they do: what was delivered meanwhile, the seq by memory id.
    """

    key: ChannelKey
    topic: str
    epoch: str
    organization_id: str
    last: int = 0
    wanted: int = 0
    live: set[Subscription] = field(default_factory=set)
    catching_up: set[Subscription] = field(default_factory=set)
    resends: set["Resend"] = field(default_factory=set)
    moved: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Resend(Item):
    """Rows past a fence, to be sent again.

    Attributes:
        feed: Whose rows.
        since: The fence.
        fenced: Who is to get them; while the table is read, who falls behind drops out.
    """

    feed: Feed
    since: int
    fenced: set[Subscription] = field(default_factory=set)


Work: TypeAlias = Subscription | Feed | Resend


def frame_of_event(feed: Feed, payload: Mapping[str, Any]) -> bytes | None:
    """One frame for every subscriber of the feed, or None where the event fails its schema."""
    fault = check_payload(payload)
    if fault is not None:
        # One unreadable event ends the stock client's stream for good; the next list shows the row.
        metrics.STREAM_UNSOUND.inc()
        log.error("unsound_event", channel=feed.key.channel_id, fault=fault)
        return None
    return text_frame(encode_broadcast(feed.topic, payload))


def frame_of_row(feed: Feed, row: StoredMemory) -> bytes | None:
    """The frame of what a row is now."""
    change = Change(feed.organization_id, feed.key.project_id, Position(feed.epoch, row.seq), row.memory.updated_at)
    return frame_of_event(feed, present_state(row.memory, change))
