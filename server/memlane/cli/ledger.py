"""`memlane ledger tail|show|verify|heads`."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import orjson
from rich.console import Console
from rich.table import Table

from memlane.cli.keys import PIPE_COLUMNS, slug_option
from memlane.cli.operator import project_named, with_pool
from memlane.storage.ledger import ChainReport, Ledger
from memlane.storage.pool import Pool
from memlane.storage.tenants import Tenants

FOLLOW_SECONDS = 1.0
"""How often `tail --follow` looks."""
_PROJECT = click.option("--project", required=True, callback=slug_option, help="The project's slug.")
_ANY_PROJECT = click.option("--project", default=None, callback=slug_option, help="One project; all by default.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
_COLUMNS = ("written", "operation", "memory", "lane", "trust", "key", "run", "source", "triggered by")


@click.group()
def ledger() -> None:
    """Read and check the ledger: who wrote what, from what, and whether anybody changed that afterwards."""


@ledger.command()
@_PROJECT
@click.option("--lane", default=None, callback=slug_option, help="Only this lane's writes.")
@click.option("--limit", type=click.IntRange(1, 2000), default=20, show_default=True, help="Most rows.")
@click.option("--follow", is_flag=True, help="Go on printing new rows until Ctrl-C.")
@_JSON
def tail(project: str, lane: str | None, limit: int, follow: bool, as_json: bool) -> None:
    """Print a project's newest writes, oldest of them first."""

    async def act(pool: Pool) -> None:
        found = await project_named(Tenants(pool), project)
        book = Ledger(pool)
        rows = await book.tail(found.id, lane=lane, limit=limit)
        _print(rows, as_json=as_json)
        after = rows[-1]["id"] if rows else 0
        while follow:
            await asyncio.sleep(FOLLOW_SECONDS)
            rows = await book.tail(found.id, lane=lane, after=after)
            _print(rows, as_json=as_json, header=False)
            after = rows[-1]["id"] if rows else after

    with_pool(act)


@ledger.command()
@_PROJECT
@click.argument("memory_id", type=click.UUID)
@_JSON
def show(project: str, memory_id: UUID, as_json: bool) -> None:
    """Print the whole history of one memory."""

    async def act(pool: Pool) -> list[dict[str, Any]]:
        found = await project_named(Tenants(pool), project)
        return await Ledger(pool).tail(found.id, memory_id=str(memory_id))

    rows = with_pool(act)
    if not rows:
        raise click.ClickException(f"the project {project} has no memory of that id")
    _print(rows, as_json=as_json)


@ledger.command()
@_ANY_PROJECT
@click.option(
    "--heads",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help="A file of `memlane ledger heads`: finds a tail that was cut, head and all.",
)
def verify(project: str | None, heads: Path | None) -> None:
    """Check every chain; exit code 1 and a line for each channel whose ledger was changed."""
    known = {} if heads is None else _read_heads(heads, project)

    async def act(pool: Pool) -> list[ChainReport]:
        found = None if project is None else (await project_named(Tenants(pool), project)).id
        book = Ledger(pool)
        return [await book.check(chain, known.pop(chain.channel_id, {})) async for chain in book.chains(found)]

    reports = with_pool(act)
    rows, unchained = sum(one.rows for one in reports), sum(one.unchained for one in reports)
    faults = [one for one in reports if one.fault is not None]
    for one in faults:
        fault: Any = one.fault
        click.echo(f"{one.chain.project} channel {one.chain.channel_id} seq {fault.seq}: {fault.reason}")
    lost = list(known)
    for channel_id in lost:
        click.echo(f"channel {channel_id}: its head was exported, and it is not there any more")
    click.echo(f"{len(reports)} channels, {rows} chained rows, {len(faults) + len(lost)} faults", err=True)
    if unchained:
        click.echo(f"{unchained} rows are from before ledgers were chained and cannot be checked", err=True)
    if faults or lost:
        sys.exit(1)


@ledger.command("heads")
@_ANY_PROJECT
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=None, help="A file; else the screen.")
def export_heads(project: str | None, out: Path | None) -> None:
    """Export the head of every chain, as JSON lines, to be kept where this database's administrators cannot write."""

    async def act(pool: Pool) -> bytes:
        found = None if project is None else (await project_named(Tenants(pool), project)).id
        at = datetime.now(UTC)
        lines = [
            orjson.dumps(
                {
                    "project": chain.project,
                    "channelId": chain.channel_id,
                    "seq": chain.head.seq,
                    "rows": chain.head.rows,
                    "sha256": None if chain.head.sha256 is None else chain.head.sha256.hex(),
                    "at": at,
                },
                option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE,
            )
            async for chain in Ledger(pool).chains(found)
        ]
        return b"".join(lines)

    lines = with_pool(act)
    if out is None:
        click.echo(lines.decode(), nl=False)
    else:
        out.write_bytes(lines)
        count = len(lines.splitlines())
        click.echo(f"{count} heads in {out}", err=True)


def _read_heads(path: Path, project: str | None) -> dict[str, dict[int, bytes]]:
    """The exported hashes by channel and seq; of one project, or of all."""
    known: dict[str, dict[int, bytes]] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            head = orjson.loads(line)
            if head["sha256"] is not None and project in (None, head["project"]):
                known.setdefault(head["channelId"], {})[int(head["seq"])] = bytes.fromhex(head["sha256"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise click.ClickException(f"line {number} of {path} is not of `memlane ledger heads`") from None
    return known


def _print(rows: list[dict[str, Any]], *, as_json: bool, header: bool = True) -> None:
    if as_json:
        for row in rows:
            click.echo(orjson.dumps(row, option=orjson.OPT_UTC_Z).decode())
        return
    table = Table(box=None, header_style="bold", show_header=header)
    for name in _COLUMNS:
        table.add_column(name, no_wrap=name in {"written", "memory"}, overflow="fold")
    for row in rows:
        source = row["source_type"] if row["source_id"] == "unknown" else f"{row['source_type']}:{row['source_id']}"
        table.add_row(
            f"{row['written_at']:%Y-%m-%d %H:%M:%S}",
            row["operation"],
            row["memory_id"],
            row["lane"],
            row["source_trust"],
            row["key"] or "none",
            row["run"],
            source,
            row["triggered_by"],
        )
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)
