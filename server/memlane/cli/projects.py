"""`memlane projects set|list`."""

import sys
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from memlane.cli.keys import PIPE_COLUMNS, slug_option
from memlane.cli.operator import project_named, with_pool
from memlane.observability.logs import log, set_up_logs
from memlane.storage.pool import Pool
from memlane.storage.tenants import Tenants

MEMORIES_MAX = 10_000_000


def _memories(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or value == "default":
        return value
    if not (value.isascii() and value.isdigit()) or not 1 <= int(value[:10]) <= MEMORIES_MAX:
        raise click.BadParameter(f"a whole number from 1 to {MEMORIES_MAX}, or `default`")
    return value


@click.group()
def projects() -> None:
    """Settings of projects. `memlane keys create` makes a project."""


@projects.command("set")
@click.argument("project", callback=slug_option)
@click.option(
    "--secret-screening",
    "screening",
    type=click.Choice(["on", "off"]),
    default=None,
    help="Whether texts that hold credentials are refused. Switching it off is logged.",
)
@click.option("--max-memories", default=None, callback=_memories, help="Most live memories of each user; or `default`.")
def set_project(project: str, screening: str | None, max_memories: str | None) -> None:
    """Change a project's settings; holds within 5 s in every process."""
    set_up_logs()
    if screening is None and max_memories is None:
        raise click.UsageError("name what to change: --secret-screening or --max-memories")

    async def act(pool: Pool) -> None:
        tenants = Tenants(pool)
        await tenants.set_project(
            await project_named(tenants, project),
            screens_secrets=None if screening is None else screening == "on",
            max_live_memories=None if max_memories in {None, "default"} else int(max_memories or 0),
            sets_limit=max_memories is not None,
        )

    with_pool(act)
    if screening == "off":
        log.warning("secret_screening_off", project=project)
    click.echo(f"Changed the project {project}; it holds within 5 s.")


@projects.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_projects(as_json: bool) -> None:
    """List all projects and their settings."""

    async def act(pool: Pool) -> list[dict[str, Any]]:
        return await Tenants(pool).list_projects()

    rows = with_pool(act)
    if as_json:
        click.echo(orjson.dumps(rows, option=orjson.OPT_UTC_Z).decode())
        return
    table = Table(box=None, header_style="bold")
    for name in ("project", "organization", "secret screening", "most memories"):
        table.add_column(name, no_wrap=name == "project", overflow="fold")
    for row in rows:
        limit = "default" if row["max_live_memories"] is None else str(row["max_live_memories"])
        table.add_row(row["slug"], row["organization"], "on" if row["screen_secrets"] else "off", limit)
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)
