"""Bring a retired memory back."""

from memlane.domain.caller import Caller
from memlane.domain.errors import MemoryNotFound
from memlane.domain.memory import Position, WriteOutcome
from memlane.observability import metrics
from memlane.usecases.access import admit_write
from memlane.usecases.forget import find_writable
from memlane.usecases.idempotency import first_answer, write_once
from memlane.usecases.ports import ChannelWrite, Idempotency, Services
from memlane.usecases.saving import channel_of


async def restore(
    services: Services, caller: Caller, memory_id: str, idempotency: Idempotency | None = None
) -> WriteOutcome:
    """Make a retired row live again, unless a live row says the same: then that one is the answer, unchanged.

    Restoring a live row changes nothing.

    Raises:
        Denied, SecretDetected, MemoryNotFound, StorageUnavailable: As in `forget`.
        IdempotencyConflict: The key was used with another request.
    """
    admit_write(services, caller)
    answered = await first_answer(services, caller, idempotency)
    if answered is not None:
        return answered
    target = await find_writable(services, caller, memory_id)

    changed = False

    async def act(write: ChannelWrite) -> WriteOutcome:
        nonlocal changed
        changed = False
        present = await write.find(memory_id)
        if present is None:
            raise MemoryNotFound
        if present.memory.live:
            return WriteOutcome(present.memory, Position(write.epoch, write.seq))
        twin = await write.find_twin(present.memory.kind, present.absorb_key)
        if twin is not None:
            position = Position(write.epoch, write.seq)
            return WriteOutcome(twin.memory, position, absorbed=True, absorbed_by="form")
        restored = await write.restore(present)
        changed = True
        return WriteOutcome(restored.memory, Position(write.epoch, restored.seq))

    outcome = await write_once(services, caller, channel_of(caller, target.memory.scope), idempotency, act)
    if changed:
        metrics.WRITES.labels("restored").inc()
    return outcome
