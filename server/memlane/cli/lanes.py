"""`memlane lanes create|set|list`."""

import sys
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from memlane.cli.keys import PIPE_COLUMNS, slug_option
from memlane.cli.operator import project_named, with_pool
from memlane.domain.lane import LaneMode, Trust
from memlane.observability.logs import log, set_up_logs
from memlane.storage.lanes import LaneChange, Lanes, UntrustedWrites
from memlane.storage.pool import Pool
from memlane.storage.tenants import Tenants

NOTE_MAX = 500
"""Longest note and owner, in characters."""
_TRUST = click.Choice([trust.value for trust in Trust])
_MODE = click.Choice([mode.value for mode in LaneMode])
_PROJECT = click.option("--project", required=True, callback=slug_option, help="The project's slug.")
_ACCEPT = click.option(
    "--accept-untrusted-writes",
    is_flag=True,
    help="Let a lane that reads untrusted input write all the same. The acceptance is kept and logged.",
)
_REFUSED = (
    "a lane that reads untrusted input may put words into every later conversation: it stays read-only or off. To let "
    "it write all the same, repeat the command with --accept-untrusted-writes"
)


@click.group()
def lanes() -> None:
    """Create, change and list lanes: who writes, how far they are trusted, and whether they may write at all."""


def _text(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (len(value) > NOTE_MAX or not value.isprintable()):
        raise click.BadParameter(f"{parameter.name} has at most {NOTE_MAX} printable characters")
    return value


@lanes.command()
@click.argument("name", callback=slug_option)
@_PROJECT
@click.option("--trust", type=_TRUST, default=Trust.INTERNAL.value, show_default=True, help="How far it is believed.")
@click.option("--mode", type=_MODE, default=None, help="Default: read-write; read-only for an untrusted lane.")
@click.option("--note", default=None, callback=_text, help="What it is for.")
@click.option("--owner", default=None, callback=_text, help="Who answers for it.")
@_ACCEPT
def create(
    name: str,
    project: str,
    trust: str,
    mode: str | None,
    note: str | None,
    owner: str | None,
    accept_untrusted_writes: bool,
) -> None:
    """Create a lane. Put keys into it with `memlane keys create --lane <name>`."""
    set_up_logs()
    wanted = LaneChange(Trust(trust), None if mode is None else LaneMode(mode), note, owner)

    async def act(pool: Pool) -> LaneMode:
        found = await project_named(Tenants(pool), project)
        return await Lanes(pool).create(found, name, wanted, accept_untrusted=accept_untrusted_writes)

    made = _run(act)
    if wanted.trust is Trust.UNTRUSTED and made is LaneMode.READ_WRITE:
        log.warning("untrusted_writes_accepted", project=project, lane=name)
    click.echo(f"Created the lane {name} ({trust}, {made.value}).")


@lanes.command("set")
@click.argument("name", callback=slug_option)
@_PROJECT
@click.option("--trust", type=_TRUST, default=None)
@click.option("--mode", type=_MODE, default=None)
@click.option("--note", default=None, callback=_text)
@click.option("--owner", default=None, callback=_text)
@_ACCEPT
def set_lane(
    name: str,
    project: str,
    trust: str | None,
    mode: str | None,
    note: str | None,
    owner: str | None,
    accept_untrusted_writes: bool,
) -> None:
    """Change a lane; what is not named stays. Holds within 5 s in every process; `off` also ends its streams."""
    set_up_logs()
    wanted = LaneChange(None if trust is None else Trust(trust), None if mode is None else LaneMode(mode), note, owner)
    if wanted == LaneChange():
        raise click.UsageError("name what to change: --trust, --mode, --note or --owner")

    async def act(pool: Pool) -> bool:
        found = await project_named(Tenants(pool), project)
        return await Lanes(pool).change(found, name, wanted, accept_untrusted=accept_untrusted_writes)

    if _run(act):
        log.warning("untrusted_writes_accepted", project=project, lane=name)
    click.echo(f"Changed the lane {name}; it holds within 5 s.")


@lanes.command("list")
@_PROJECT
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_lanes(project: str, as_json: bool) -> None:
    """List a project's lanes."""

    async def act(pool: Pool) -> list[dict[str, Any]]:
        return await Lanes(pool).list(await project_named(Tenants(pool), project))

    rows = with_pool(act)
    if as_json:
        click.echo(orjson.dumps(rows, option=orjson.OPT_UTC_Z).decode())
        return
    table = Table(box=None, header_style="bold")
    for name in ("name", "trust", "mode", "keys", "owner", "note"):
        table.add_column(name, no_wrap=name == "name", overflow="fold")
    for row in rows:
        mode = row["mode"] if row["untrusted_writes_accepted_at"] is None else f"{row['mode']} (accepted)"
        table.add_row(row["name"], row["trust"], mode, str(row["active_keys"]), row["owner"], row["note"])
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)


def _run(act: Any) -> Any:
    try:
        return with_pool(act)
    except UntrustedWrites as fault:
        raise click.ClickException(_REFUSED) from fault
    except ValueError as fault:
        raise click.ClickException(str(fault)) from fault
