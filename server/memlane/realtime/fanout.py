"""Hints between processes. They carry no truth: what is lost, the hub's sweep finds."""

import time
from collections.abc import Callable, Iterator, Sequence

from memlane.domain.caller import Caller
from memlane.domain.events import Change, created, present_state
from memlane.domain.memory import Position
from memlane.domain.stream import ChannelKey, Hint, RowChange
from memlane.usecases.ports import ChannelHead


def hints_of_write(
    caller: Caller, channel: ChannelHead, changes: Sequence[RowChange], *, with_payload: bool
) -> Iterator[Hint]:
    """A hint for each change of a committed write; each is a fence too, since its answer is under way."""
    key = ChannelKey(caller.project_id, channel.id)
    epoch, now = channel.position.epoch, time.time()
    for row in changes:
        payload = None
        # The operator's own commands know no organization; the gateway reads what they wrote from the table.
        if with_payload and caller.key.organization_id:
            change = Change(
                caller.key.organization_id, caller.project_id, Position(epoch, row.seq), row.memory.updated_at
            )
            payload = created(row.memory, change) if row.created else present_state(row.memory, change)
        yield Hint(key, epoch, row.seq, payload, fence=True, sent_at=now)


def hints_of_list(project_id: str, heads: Sequence[ChannelHead]) -> Iterator[Hint]:
    """A fence for each channel that a list shows."""
    for head in heads:
        yield Hint(ChannelKey(project_id, head.id), head.position.epoch, head.position.seq, fence=True, moved=False)


class LocalHints:
    """Implements `usecases.ports.Hints` within one process: the hub hears at once."""

    def __init__(self, receive: Callable[[Hint], None], has_feed: Callable[[ChannelKey], bool]) -> None:
        self._receive = receive
        self._has_feed = has_feed

    def committed(self, caller: Caller, channel: ChannelHead, changes: Sequence[RowChange]) -> None:
        """See `Hints.committed`."""
        # Without a subscriber nobody needs the event, only the fence.
        wanted = self._has_feed(ChannelKey(caller.project_id, channel.id))
        for hint in hints_of_write(caller, channel, changes, with_payload=wanted):
            self._receive(hint)

    def shown(self, project_id: str, heads: Sequence[ChannelHead]) -> None:
        """See `Hints.shown`."""
        for hint in hints_of_list(project_id, heads):
            self._receive(hint)
