"""The hub: the channels that have subscribers in this process.

First deliveries of a feed go out in order of seq, to every live subscription at once. What is not next in order
is read from the table, where each row stands with its present state. A subscription that joins or has fallen
behind reads the table by itself, page by page, and becomes live when it has reached the feed.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from memlane.domain.errors import StorageUnavailable
from memlane.domain.memory import Position
from memlane.domain.stream import ChannelKey, Hint
from memlane.observability import metrics
from memlane.phoenix.close_codes import CloseCode
from memlane.realtime.client import QUEUE_BYTES, Subscription
from memlane.realtime.feed import Feed, Resend, Work, frame_of_event, frame_of_row
from memlane.realtime.fences import Fences
from memlane.realtime.joins import Refused, resolve_join
from memlane.realtime.trust import Trust
from memlane.realtime.wire import PAUSE_BYTES
from memlane.usecases.list_memories import LIST_MAX
from memlane.usecases.ports import ChangesPage, StoredMemory, StreamStore

PAGE_ROWS = 200
PAGE_BYTES = 256 * 1024
"""Most that is handed to one socket before the others have their turn (realtime.md, Load)."""
SWEEP_SECONDS = 1.5
"""How often heads are compared (realtime.md: 1 to 2 s)."""
SWEEP_PAGE = 500
FENCE_TICK_SECONDS = 0.05
RETRY_SECONDS = 0.25
"""Wait before the database is asked again after a fault."""


class Hub:
    """See the module and the package; all of one event loop.

    Args:
        streams: The table.
        healthy: Whether hints arrive; while they do not, every change counts as fenced.
        monotonic: A clock in seconds.
    """

    def __init__(
        self,
        streams: StreamStore,
        *,
        healthy: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._streams = streams
        self._monotonic = monotonic
        self._feeds: dict[ChannelKey, Feed] = {}
        self._work: asyncio.Queue[Work] = asyncio.Queue()
        self._fences = Fences()
        self.trust = Trust(self._fences, healthy, monotonic)

    # What comes from outside

    def has_feed(self, key: ChannelKey) -> bool:
        """Whether anybody here would see an event of this channel."""
        return key in self._feeds

    def receive(self, hint: Hint) -> None:
        """Take a hint. One that is next in order and carries its event goes out at once."""
        now = self._monotonic()
        if hint.fence:
            self._fences.add(hint.key, hint.seq, now)
        feed = self._feeds.get(hint.key)
        if feed is None or not hint.moved:
            return
        if hint.epoch != feed.epoch:
            self._end_epoch(feed)
            return
        feed.wanted = max(feed.wanted, hint.seq)
        if hint.seq == feed.last + 1 and hint.payload is not None and feed.live:
            frame = frame_of_event(feed, hint.payload)
            # An event that another version made and this one cannot send is read from the table below.
            if frame is not None:
                self.trust.note_change(feed.key, feed.last, now)
                self._deliver(feed, hint.seq, hint.payload["memoryId"], frame)
                if hint.sent_at:
                    metrics.STREAM_DELIVERY_SECONDS.observe(max(0.0, time.time() - hint.sent_at))
        if feed.wanted > feed.last and feed.live:
            metrics.STREAM_RESYNCS.labels("gap").inc()
            self._enqueue(feed)

    def distrust(self) -> None:
        """Hints were lost: read every feed anew, and take every change of 15 s before and after as fenced."""
        self.trust.lose()
        for feed in self._feeds.values():
            metrics.STREAM_RESYNCS.labels("hints_lost").inc()
            self._enqueue(feed)

    def enqueue(self, subscription: Subscription) -> None:
        """Have a worker look at a subscription that joins or has drained."""
        self._enqueue(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription; a feed without any is dropped."""
        feed = None if subscription.key is None else self._feeds.get(subscription.key)
        if subscription.counted:
            subscription.counted = False
            metrics.STREAM_CHANNELS.dec()
        if feed is not None:
            feed.live.discard(subscription)
            feed.catching_up.discard(subscription)
            if not feed.live and not feed.catching_up:
                del self._feeds[feed.key]

    # The loops, each supervised

    async def run_worker(self) -> None:
        """Look at what is queued, one at a time, for ever. Several may run."""
        while True:
            item = await self._work.get()
            item.queued = False
            if item.busy:
                # Two readers of one item would write an older page after a newer one.
                item.again = True
                continue
            item.busy = True
            try:
                await self._look_at(item)
            except StorageUnavailable:
                self._again_later(item)
            except Exception:
                # The supervisor tells of it and starts the worker anew; the item's clients must not be forgotten.
                self._again_later(item)
                raise
            finally:
                item.busy = False
                if item.again:
                    item.again = False
                    self._enqueue(item)

    async def run_sweep(self) -> None:
        """Compare the heads of all feeds with the table, for ever: what a hint lost is found here."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            keys = list(self._feeds)
            for start in range(0, len(keys), SWEEP_PAGE):
                page = keys[start : start + SWEEP_PAGE]
                try:
                    heads = await self._streams.positions(page)
                except StorageUnavailable:
                    break
                for key in page:
                    self._compare(key, heads.get(key.channel_id))

    async def run_fences(self) -> None:
        """Send again what late answers may have overwritten, for ever."""
        while True:
            await asyncio.sleep(FENCE_TICK_SECONDS)
            self.trust.watch()
            for key, since in self._fences.take_due(self._monotonic()):
                feed = self._feeds.get(key)
                if feed is None:
                    continue
                self._put_back(feed, since)
                if feed.last > since and any(subscription.fenced for subscription in feed.live):
                    self._enqueue(Resend(feed, since))

    # First deliveries

    def _compare(self, key: ChannelKey, head: Position | None) -> None:
        feed = self._feeds.get(key)
        if feed is None or head is None:
            return
        if head.epoch != feed.epoch:
            self._end_epoch(feed)
        elif head.seq > feed.last and feed.live and not feed.queued:
            feed.wanted = max(feed.wanted, head.seq)
            metrics.STREAM_RESYNCS.labels("sweep").inc()
            self._enqueue(feed)

    def _deliver(self, feed: Feed, seq: int, memory_id: str, frame: bytes | None) -> None:
        feed.last = seq
        if feed.resends:
            feed.moved[memory_id] = seq
        if frame is None:
            return
        late = [subscription for subscription in feed.live if not self._hand_over(subscription, frame, seq)]
        metrics.STREAM_EVENTS.inc(len(feed.live) - len(late))
        for subscription in late:
            self._fall_behind(feed, subscription)

    def _hand_over(self, subscription: Subscription, frame: bytes, seq: int) -> bool:
        if seq <= subscription.position:
            return True
        wire = subscription.client.wire
        if wire.buffered() + len(frame) > QUEUE_BYTES:
            return False
        wire.write(frame)
        subscription.position = seq
        return True

    async def _pull(self, feed: Feed) -> None:
        page = await self._read(feed, feed.last)
        if page is None:
            return
        # A gap's own fences may be lost as well.
        if page.rows:
            self._fences.add(feed.key, feed.last, self._monotonic())
        for row in page.rows:
            if row.seq > feed.last:
                self._deliver(feed, row.seq, row.memory.id, frame_of_row(feed, row))
        if page.complete:
            feed.last = max(feed.last, page.position.seq)
        if (not page.complete or feed.wanted > feed.last) and feed.live:
            self._enqueue(feed)

    async def _read(self, feed: Feed, since: int) -> ChangesPage | None:
        page = await self._streams.changes_since(feed.key, since, PAGE_ROWS)
        if self._feeds.get(feed.key) is not feed:
            return None
        if page.position.epoch != feed.epoch:
            self._end_epoch(feed)
            return None
        return page

    # Catching up

    def _fall_behind(self, feed: Feed, subscription: Subscription) -> None:
        metrics.STREAM_OVERFLOWS.inc()
        metrics.STREAM_RESYNCS.labels("slow_socket").inc()
        feed.live.discard(subscription)
        feed.catching_up.add(subscription)
        subscription.state = "behind"
        for resend in feed.resends:
            if subscription in resend.fenced:
                # Its page may be older than what the subscription reads meanwhile.
                resend.fenced.discard(subscription)
                subscription.position = min(subscription.position, resend.since)
        # The wire queues it as soon as the socket has drained.

    async def _catch_up(self, feed: Feed, subscription: Subscription) -> None:
        wire = subscription.client.wire
        if wire.buffered() > PAUSE_BYTES:
            return
        began_at = subscription.position
        page = await self._read(feed, began_at)
        if page is None or subscription.state != "behind":
            return
        if subscription.position < began_at:
            self._enqueue(subscription)  # a fence put it back meanwhile
            return
        if subscription.fenced:
            self.trust.note_caught_up(feed.key, page.rows)
        if not self._write_page(feed, subscription, page.rows) or not page.complete:
            # Over the mark the transport calls when it has drained; below it nobody would.
            if wire.buffered() <= PAUSE_BYTES:
                self._enqueue(subscription)
            return
        subscription.position = max(subscription.position, page.position.seq)
        if not feed.live:
            feed.last = subscription.position
        if feed.last > subscription.position:
            self._enqueue(subscription)
            return
        subscription.state = "live"
        subscription.visible = None
        feed.catching_up.discard(subscription)
        feed.live.add(subscription)
        if feed.wanted > feed.last:
            self._enqueue(feed)

    def _write_page(self, feed: Feed, subscription: Subscription, rows: Sequence[StoredMemory]) -> bool:
        """Whether all rows were handed over; else the position tells where to go on."""
        wire, written = subscription.client.wire, 0
        for row in rows:
            if written > PAGE_BYTES or wire.buffered() > PAUSE_BYTES:
                return False
            frame = frame_of_row(feed, row) if subscription.is_shown(row) else None
            if frame is not None:
                wire.write(frame)
                written += len(frame)
                metrics.STREAM_EVENTS.inc()
            subscription.position = row.seq
        return True

    # Fences

    def _put_back(self, feed: Feed, since: int) -> None:
        # Who is behind reads the table anyway: from the fence on.
        for subscription in feed.catching_up:
            if subscription.fenced and subscription.state == "behind" and subscription.position > since:
                subscription.position = since

    async def _resend(self, resend: Resend) -> None:
        feed = resend.feed
        # Who becomes live from now on has read the table from the fence on by itself, and perhaps later; who falls
        # behind will.
        resend.fenced = {subscription for subscription in feed.live if subscription.fenced}
        feed.resends.add(resend)
        try:
            page = await self._read(feed, resend.since)
            if page is not None:
                self._write_again(resend, page)
        finally:
            feed.resends.discard(resend)
            if not feed.resends:
                feed.moved = {}

    def _write_again(self, resend: Resend, page: ChangesPage) -> None:
        feed = resend.feed
        # What moved on while the page was read was sent with its newer state: the page's would undo that.
        rows = [row for row in page.rows if row.seq <= feed.last and feed.moved.get(row.memory.id, 0) <= row.seq]
        served = max(feed.last, page.position.seq)
        for row in rows:
            frame = frame_of_row(feed, row)
            if frame is None:
                continue
            for subscription in list(resend.fenced):
                if subscription not in feed.live or subscription.position > served:
                    continue
                if subscription.client.wire.buffered() + len(frame) > QUEUE_BYTES:
                    self._fall_behind(feed, subscription)
                else:
                    subscription.client.wire.write(frame)
                    metrics.STREAM_RESENT.inc()
        self._fences.slow_down(feed.key, len(rows), self._monotonic())
        if not page.complete and page.rows[-1].seq <= feed.last:
            self._enqueue(Resend(feed, page.rows[-1].seq))

    # Joining

    async def _join(self, subscription: Subscription) -> None:
        client = subscription.client
        answer = await resolve_join(self._streams, client.claims, subscription.topic, subscription.payload)
        if subscription.state != "joining":
            return
        if isinstance(answer, Refused):
            client.subscriptions.pop((subscription.topic, subscription.join_ref), None)
            subscription.state = "ended"
            if answer.other_epoch:
                client.close(CloseCode.SERVICE_RESTART, "this session has ended")
            else:
                client.carry_out(
                    client.connection.join_refused(subscription.topic, subscription.join_ref, answer.reason), 0.0
                )
            return
        feed = self._feeds.get(answer.key)
        if feed is None:
            feed = self._feeds[answer.key] = Feed(
                answer.key, subscription.topic, answer.epoch, client.claims.organization
            )
        subscription.key, subscription.position = answer.key, answer.position
        subscription.fenced, subscription.head = answer.fenced, answer.head
        subscription.state = "behind"
        subscription.counted = True
        metrics.STREAM_CHANNELS.inc()
        feed.catching_up.add(subscription)
        client.carry_out(
            client.connection.join_accepted(subscription.topic, subscription.join_ref, answer.response), 0.0
        )
        # A long way is cut short: beyond 2,000 changes only what a list shows, and what was retired.
        subscription.visible = await self._streams.visible_ids(answer.key, answer.position, LIST_MAX)
        if subscription.state == "behind" and self._feeds.get(feed.key) is feed:
            await self._catch_up(feed, subscription)

    # The queue

    def _enqueue(self, item: Work) -> None:
        if not item.queued:
            item.queued = True
            self._work.put_nowait(item)

    async def _look_at(self, item: Work) -> None:
        if isinstance(item, Resend):
            await self._resend(item)
        elif isinstance(item, Feed):
            if self._feeds.get(item.key) is item and item.live:
                await self._pull(item)
        elif item.state == "joining":
            await self._join(item)
        elif item.state == "behind" and item.key is not None and item.key in self._feeds:
            await self._catch_up(self._feeds[item.key], item)

    def _again_later(self, item: Work) -> None:
        if isinstance(item, Subscription) and item.state == "joining" and self._monotonic() > item.deadline:
            # Not refused: a refused first join makes the stock client give up for good.
            item.client.close(CloseCode.SERVICE_RESTART, "the database does not answer")
            return
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._enqueue, item)

    def _end_epoch(self, feed: Feed) -> None:
        metrics.STREAM_RESYNCS.labels("epoch").inc()
        for subscription in [*feed.live, *feed.catching_up]:
            subscription.client.close(CloseCode.SERVICE_RESTART, "this session has ended")
