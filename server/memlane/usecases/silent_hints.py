"""Hints for a process that has nobody to tell: the gateways' sweep finds what it wrote."""

from collections.abc import Sequence

from memlane.domain.caller import Caller
from memlane.domain.stream import RowChange
from memlane.usecases.ports import ChannelHead


class SilentHints:
    """Implements `usecases.ports.Hints`."""

    def committed(self, caller: Caller, channel: ChannelHead, changes: Sequence[RowChange]) -> None:
        """Tell nobody."""

    def shown(self, project_id: str, heads: Sequence[ChannelHead]) -> None:
        """Tell nobody."""
