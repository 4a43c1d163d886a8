"""Retire a memory. Its row stays, out of recall and the default list; erasure is an operator's act."""

from memlane.domain.caller import Caller
from memlane.domain.errors import MemoryNotFound
from memlane.observability import metrics
from memlane.usecases.access import admit_write, readable_scopes, require_writable
from memlane.usecases.ports import ChannelWrite, Services, StoredMemory
from memlane.usecases.saving import channel_of


async def forget(services: Services, caller: Caller, memory_id: str) -> None:
    """Retire a memory; repeating it changes nothing.

    Raises:
        Denied: The lane or the grant forbids it; a row that the grant lets the caller read but not write is
            refused so too.
        SecretDetected: What was sent of the origin holds a credential.
        MemoryNotFound: No such row is visible to this caller.
        StorageUnavailable: As in `remember`; repeating it is safe.
    """
    admit_write(services, caller)
    target = await find_writable(services, caller, memory_id)
    if not target.memory.live:
        return

    async def act(write: ChannelWrite) -> bool:
        present = await write.find(memory_id)
        if present is None:
            raise MemoryNotFound
        if not present.memory.live:
            return False
        await write.retire(present)
        return True

    if await services.store.in_channel(caller, channel_of(caller, target.memory.scope), act):
        metrics.WRITES.labels("retired").inc()


async def find_writable(services: Services, caller: Caller, memory_id: str) -> StoredMemory:
    """A row, live or retired, that this caller may change.

    Raises:
        MemoryNotFound: It is not visible to this caller: another tenant's id looks the same as no id.
        GrantDenied: It is visible, but its scope is read-only to this caller.
    """
    found = await services.store.find(caller.project_id, caller.user_id, readable_scopes(caller), memory_id)
    if found is None:
        raise MemoryNotFound
    require_writable(caller, found.memory)
    return found
