"""`memlane keys create|list|revoke`."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from memlane.auth.runtime_keys import mint_runtime_key, parse_runtime_key
from memlane.cli.operator import project_named, with_pool
from memlane.cli.plain_text import label_of_at_most
from memlane.domain.grant import Access, Grant
from memlane.storage.pool import Pool
from memlane.storage.tenants import DEFAULT_LANE, NewKey, Tenants

_ACCESS = click.Choice([access.value for access in Access])
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
LABEL_MAX = 200
"""Longest label of a key, in characters."""
PIPE_COLUMNS = 160
"""Columns of a table that goes into a pipe: there an id must never be cut."""


def slug_option(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The callback of an option or argument that is a slug."""
    if value is not None and not _SLUG.fullmatch(value):
        raise click.BadParameter("a slug has 1 to 63 of a-z, 0-9 and -, and does not begin with -")
    return value


@click.group()
def keys() -> None:
    """Create, list and revoke runtime keys. Works on the database of DATABASE_URL."""


@keys.command()
@click.option(
    "--organization", default=None, callback=slug_option, help="Its slug; needed for the project's first key."
)
@click.option(
    "--project", required=True, callback=slug_option, help="The project's slug; made where it does not exist."
)
@click.option(
    "--label",
    default="",
    callback=label_of_at_most(LABEL_MAX),
    help=f"What the key is for; at most {LABEL_MAX} characters.",
)
@click.option("--user-access", type=_ACCESS, default="read-write", show_default=True, help="Access to user memories.")
@click.option(
    "--project-access",
    type=_ACCESS,
    default="read-write",
    show_default=True,
    help="Access to project memories.",
)
@click.option("--lane", default=DEFAULT_LANE, show_default=True, help="The lane that the key writes in.")
@click.option("--expires-in-days", type=click.IntRange(1, 3650), default=None, help="Never by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(
    organization: str | None,
    project: str,
    label: str,
    user_access: str,
    project_access: str,
    lane: str,
    expires_in_days: int | None,
    as_json: bool,
) -> None:
    """Create a key and print it. It is shown this once: only a hash is stored."""
    expires = None if expires_in_days is None else datetime.now(UTC) + timedelta(days=expires_in_days)
    token = mint_runtime_key(project)
    key = NewKey(
        short=token.short,
        secret_sha256=token.hash(),
        label=label,
        grant=Grant(Access(user_access), Access(project_access)),
        lane=lane,
        expires_at=expires,
    )

    async def act(pool: Pool) -> None:
        tenants = Tenants(pool)
        try:
            found = (
                await project_named(tenants, project)
                if organization is None
                else await tenants.ensure_project(organization, project)
            )
            await tenants.add_key(found, key)
        except ValueError as fault:
            raise click.ClickException(str(fault)) from fault

    with_pool(act)
    if as_json:
        click.echo(json.dumps({"key": token.reveal(), "id": token.short, "project": project}))
    else:
        click.echo(token.reveal())
        click.echo("Keep it: it is not shown again.", err=True)


@keys.command("list")
@click.option("--project", required=True, help="The project's slug.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(project: str, as_json: bool) -> None:
    """List a project's keys; a secret is never among what is shown."""

    async def act(pool: Pool) -> list[dict[str, Any]]:
        tenants = Tenants(pool)
        return await tenants.list_keys(await project_named(tenants, project))

    rows = with_pool(act)
    if as_json:
        click.echo(json.dumps([{name: _plain(value) for name, value in row.items()} for row in rows]))
        return
    table = Table(box=None, header_style="bold")
    for name in ("id", "state", "label", "lane", "user", "project", "created", "expires"):
        table.add_column(name, no_wrap=name == "id", overflow="fold")
    now = datetime.now(UTC)
    for row in rows:
        expired = row["expires_at"] is not None and row["expires_at"] <= now
        state = "revoked" if row["revoked_at"] else "expired" if expired else "active"
        table.add_row(
            row["short"],
            state,
            row["label"],
            f"{row['lane']} ({row['mode']})",
            row["user_access"],
            row["project_access"],
            f"{row['created_at']:%Y-%m-%d %H:%M}",
            "never" if row["expires_at"] is None else f"{row['expires_at']:%Y-%m-%d %H:%M}",
        )
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key by its id (the middle part of the key; a whole key is understood too). Holds within 5 s."""
    token = parse_runtime_key(key_id)

    async def act(pool: Pool) -> datetime | None:
        tenants = Tenants(pool)
        if token is None:
            return await tenants.revoke_key(key_id)
        at = await tenants.revoke_whole_key(token.short, token.hash(), token.project)
        if at is None and await tenants.has_key(token.short):
            raise click.ClickException(
                "no key has this id and this project and secret together, so nothing was revoked; to revoke the key of "
                f"that id all the same: memlane keys revoke {token.short}"
            )
        return at

    at = with_pool(act)
    if at is None:
        raise click.ClickException("there is no key of that id; `memlane keys list --project <slug>` shows them")
    click.echo(f"Revoked {key_id if token is None else token.short} at {at:%Y-%m-%dT%H:%M:%SZ}.")


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
