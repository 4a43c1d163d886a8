"""A change of models: the configured space is made active, and every row is moved to it while recall goes on."""

from collections.abc import Awaitable, Callable

from memlane.domain.errors import Misconfigured
from memlane.usecases.ports import Embedder, Upkeep

BATCH = 32


async def activate(upkeep: Upkeep, embedder: Embedder) -> int:
    """Make the configured model's space the active one.

    Returns:
        The number of the space.

    Raises:
        EmbedderUnavailable: It does not answer, so that its space is not sure.
        Misconfigured: It answers with another model or dimension than configured.
        StorageUnavailable: The database does not answer.
    """
    await embedder.probe()
    space_id = await upkeep.ensure_space(embedder.space)
    await upkeep.activate(space_id)
    return space_id


async def reembed(upkeep: Upkeep, embedder: Embedder, on_rows: Callable[[int], Awaitable[None]]) -> int:
    """Move every row to the active space; it may be broken off and run again at any time.

    Recall serves both spaces meanwhile: each row is compared with the query in the space that it is in.

    Args:
        upkeep: The rows.
        embedder: The configured model, whose space must be the active one.
        on_rows: Told how many rows were moved.

    Returns:
        How many rows were moved.

    Raises:
        Misconfigured: The configured model's space is not the active one.
        EmbedderUnavailable, StorageUnavailable: What was moved stays; run it again.
    """
    space_id = await upkeep.ensure_space(embedder.space)
    if not any(status.id == space_id and status.active for status in await upkeep.spaces()):
        raise Misconfigured("The configured model is not the active one: run `memlane embeddings activate` first.")
    moved = 0
    while rows := await upkeep.foreign_rows(space_id, BATCH):
        embeddings = await embedder.embed_documents([row.content for row in rows])
        count = await upkeep.move(rows, space_id, embeddings)
        moved += count
        await on_rows(count)
    return moved
