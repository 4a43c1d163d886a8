"""Open and end the live stream: join tokens for a user's own topics, and log-out."""

from memlane.domain.caller import Caller
from memlane.domain.memory import Scope
from memlane.usecases.access import require_some
from memlane.usecases.ports import Services, StreamTicket


async def subscribe(services: Services, caller: Caller) -> dict[Scope, StreamTicket]:
    """A join token for each scope that the grant can read.

    Raises:
        Denied: The lane is off, or the grant reads nothing.
        StorageUnavailable: The database does not answer.
    """
    scopes = require_some(caller, needs_write=False)
    starts = await services.store.stream_heads(caller.project_id, caller.user_id, scopes)
    now = services.clock.now()
    return {start.head.scope: services.join_tokens.mint(caller, start, now=now) for start in starts}


async def unsubscribe(services: Services, caller: Caller) -> None:
    """End every stream session of this user, on all devices. Raises as `subscribe`."""
    require_some(caller, needs_write=False)
    await services.store.end_stream_sessions(caller.project_id, caller.user_id)
