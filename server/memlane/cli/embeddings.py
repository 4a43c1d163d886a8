"""`memlane embeddings`: which embedding spaces there are, and a change of models."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import click
from rich.console import Console
from rich.table import Table

from memlane.cli.migrate import database_url_from
from memlane.cli.operator import T
from memlane.cli.progress import progress
from memlane.embedding.configured import make_embedder
from memlane.preflight import load_settings
from memlane.storage.near_index import build_near_index
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.statistics import LARGE_MIN, recount
from memlane.storage.upkeep import PostgresUpkeep
from memlane.usecases.ports import Embedder
from memlane.usecases.reembed import activate, reembed

RECOUNT_ROWS = 10_000
"""Moved rows after which the statistics of large channels are counted again, so that recall finds them by vector."""


@click.group("embeddings")
def embeddings() -> None:
    """Embedding spaces: status, activate, reembed.

    To change the model: set MEMORY_EMBEDDINGS_URL, MEMORY_EMBEDDING_MODEL and MEMORY_EMBEDDING_DIMENSIONS to the new
    one and MEMORY_EARLIER_EMBEDDINGS_URL, …_MODEL and …_DIMENSIONS to the old one, restart the API, then run `memlane
    embeddings activate` and `memlane embeddings reembed`. Recall serves both meanwhile. Afterwards unset the
    MEMORY_EARLIER_ variables. Needs the settings of `memlane api`.
    """


@embeddings.command()
def status() -> None:
    """List the embedding spaces and how many rows each has."""

    async def show(pool: Pool, embedder: Embedder) -> None:
        upkeep = PostgresUpkeep(pool)
        table = Table("space", "provider", "model", "dimensions", "rows", "active", "configured", "index")
        for one in await upkeep.spaces():
            marks = (one.active, one.space == embedder.space, one.indexed)
            table.add_row(
                *(str(one.id), one.space.provider, one.space.model, str(one.space.dimensions), str(one.rows)),
                *("yes" if mark else "" for mark in marks),
            )
        Console(width=max(100, Console().width)).print(table)

    _with_embedder(show)


@embeddings.command("activate")
@click.option("--index/--no-index", default=None, help="Build the index for large project channels, or do not.")
def activate_command(index: bool | None) -> None:
    """Make the configured model's space the one that rows are moved to, and build its index where it is needed."""

    async def act(pool: Pool, embedder: Embedder) -> None:
        upkeep = PostgresUpkeep(pool)
        space_id = await activate(upkeep, embedder)
        click.echo(f"Space {space_id} is active: {embedder.space.model}, {embedder.space.dimensions} dimensions.")
        wanted = await upkeep.count_project_rows(LARGE_MIN) >= LARGE_MIN if index is None else index
        if wanted:
            await build_near_index(database_url_from(os.environ), space_id, embedder.space.dimensions)
            click.echo("Its index for large project channels is built.")

    _with_embedder(act)


@embeddings.command("reembed")
def reembed_command() -> None:
    """Move every row to the active space. Recall goes on meanwhile; when broken off, run it again."""

    async def act(pool: Pool, embedder: Embedder) -> None:
        upkeep = PostgresUpkeep(pool)
        space_id = await upkeep.ensure_space(embedder.space)
        total = await upkeep.count_foreign(space_id)
        with progress(transient=False) as bar:
            task = bar.add_task("rows", total=total)
            uncounted = 0

            async def on_rows(count: int) -> None:
                nonlocal uncounted
                bar.advance(task, count)
                uncounted += count
                if uncounted >= RECOUNT_ROWS:
                    uncounted = 0
                    await recount(pool)

            moved = await reembed(upkeep, embedder, on_rows)
        await recount(pool)
        left = await upkeep.count_foreign(space_id)
        click.echo(f"{moved} rows were moved to space {space_id}; {left} are left.")

    _with_embedder(act)


def _with_embedder(act: Callable[[Pool, Embedder], Awaitable[T]]) -> T:
    settings = load_settings(os.environ, command="memlane embeddings")

    async def run() -> T:
        embedder = make_embedder(settings)
        pool = Pool(settings.database_url, PoolLimits(max_size=2))
        try:
            return await act(pool, embedder)
        finally:
            await embedder.aclose()
            await pool.aclose()

    return asyncio.run(run())
