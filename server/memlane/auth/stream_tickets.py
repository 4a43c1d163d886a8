"""Join tokens for the channels of a caller."""

from datetime import datetime
from uuid import uuid4

from memlane.auth.join_tokens import JoinTokenRejected, JoinTokens
from memlane.domain.caller import Caller
from memlane.domain.errors import TokenRejected
from memlane.domain.stream import JoinClaims
from memlane.usecases.ports import StreamStart, StreamTicket


class StreamTickets:
    """Implements `usecases.ports.JoinTokens`."""

    def __init__(self, tokens: JoinTokens) -> None:
        self._tokens = tokens

    def mint(self, caller: Caller, start: StreamStart, *, now: datetime) -> StreamTicket:
        """See `usecases.ports.JoinTokens.mint`."""
        head = start.head
        claims = JoinClaims(
            organization=caller.key.organization_id,
            project=caller.project_id,
            user=caller.user_id,
            scope=head.scope,
            grant=caller.grant,
            key_id=caller.key.short,
            lane=caller.key.lane.id,
            join_code=head.join_code,
            epoch=head.position.epoch,
            cursor=start.cursor,
            issued_at=now,
            session_id=uuid4().hex,
            logged_out_at=start.logged_out_at,
        )
        return StreamTicket(self._tokens.mint(claims), head.join_code)

    def verify(self, token: str) -> JoinClaims:
        """See `usecases.ports.JoinTokens.verify`."""
        try:
            return self._tokens.verify(token)
        except JoinTokenRejected as fault:
            raise TokenRejected(fault.reason.value) from fault
