"""One memory, and the history of its writes."""

from memlane.domain.caller import Caller
from memlane.domain.errors import MemoryNotFound
from memlane.domain.memory import Memory
from memlane.usecases.access import require_some
from memlane.usecases.ports import LedgerEntry, Services


async def read_memory(services: Services, caller: Caller, memory_id: str) -> Memory:
    """A memory, live or retired.

    Raises:
        Denied: The lane is off, or the grant reads nothing.
        MemoryNotFound: No such row is visible to this caller.
    """
    scopes = require_some(caller, needs_write=False)
    found = await services.store.find(caller.project_id, caller.user_id, scopes, memory_id)
    if found is None:
        raise MemoryNotFound
    return found.memory


async def read_provenance(services: Services, caller: Caller, memory_id: str) -> list[LedgerEntry]:
    """Who wrote this memory, from what, oldest write first; of a purged one too. Raises as `read_memory`."""
    scopes = require_some(caller, needs_write=False)
    entries = await services.store.provenance(caller.project_id, caller.user_id, scopes, memory_id)
    if not entries:
        raise MemoryNotFound
    return entries
