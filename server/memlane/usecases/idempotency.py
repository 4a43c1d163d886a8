"""A retry with the same key gets the first answer again, for 24 h; the same key on another request is refused."""

from collections.abc import Awaitable, Callable

import orjson

from memlane.domain.caller import Caller
from memlane.domain.errors import IdempotencyConflict
from memlane.domain.memory import WriteOutcome
from memlane.usecases.access import require_writable
from memlane.usecases.outcome_json import outcome_from_json, outcome_to_json
from memlane.usecases.ports import ChannelRef, ChannelWrite, Idempotency, KeptAnswer, Services


async def first_answer(services: Services, caller: Caller, idempotency: Idempotency | None) -> WriteOutcome | None:
    """The first answer to this key, before any work is done for the retry.

    An answer holds a memory whole, so it is given only to whom this very memory may be given now: a retry may come
    with a narrower grant than the first request.

    Raises:
        IdempotencyConflict: The key stands for another request.
        MemoryNotFound, GrantDenied: The grant does not reach the memory of the answer, as in `require_writable`.
    """
    if idempotency is None:
        return None
    kept = await services.store.find_answer(caller.project_id, caller.user_id, idempotency.key)
    return _outcome_of(kept, caller, idempotency)


async def write_once(
    services: Services,
    caller: Caller,
    channel: ChannelRef,
    idempotency: Idempotency | None,
    act: Callable[[ChannelWrite], Awaitable[WriteOutcome]],
) -> WriteOutcome:
    """Run a write under its channel's lock and keep its answer in the same transaction."""

    async def once(write: ChannelWrite) -> WriteOutcome:
        if idempotency is None:
            return await act(write)
        kept = _outcome_of(await write.find_answer(idempotency.key), caller, idempotency)
        if kept is not None:
            return kept
        outcome = await act(write)
        await write.keep_answer(idempotency, outcome.memory.id, orjson.dumps(outcome_to_json(outcome)).decode())
        return outcome

    return await services.store.in_channel(caller, channel, once)


def _outcome_of(kept: KeptAnswer | None, caller: Caller, idempotency: Idempotency) -> WriteOutcome | None:
    if kept is None:
        return None
    if kept.request_sha256 != idempotency.request_sha256:
        raise IdempotencyConflict
    outcome = outcome_from_json(orjson.loads(kept.answer))
    require_writable(caller, outcome.memory)
    return outcome
