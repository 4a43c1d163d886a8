"""`memlane export user`: all that is kept of one person, as JSON lines."""

import os
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson

from memlane.cli.operator import project_named, with_pool
from memlane.cli.progress import progress
from memlane.storage.personal import PersonalData
from memlane.storage.pool import Pool
from memlane.storage.tenants import Tenants

PAGE = 500
"""Memories of one read."""


@click.command("user")
@click.argument("user_id")
@click.option("--project", required=True, help="The project's slug.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A new file.")
def export_user(user_id: str, project: str, out: Path) -> None:
    """Write a person's own data: each memory, live or retired, its earlier wordings, its writes and its recalls.

    One JSON object a line. Memories of the project are not theirs alone and are not in it.
    """

    async def act(pool: Pool) -> int:
        found = await project_named(Tenants(pool), project)
        data = PersonalData(pool)
        written, after = 0, None
        with _new(out) as file, progress() as bar:
            task = bar.add_task("exporting", total=await data.count(found.id, user_id))
            while page := await data.page(found.id, user_id, after, PAGE):
                file.write(b"".join(_personal_line(row) for row in page))
                after = page[-1]["id"]
                written += len(page)
                bar.update(task, completed=written)
        return written

    click.echo(f"{with_pool(act)} memories of {user_id} in {out}", err=True)


def _personal_line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(
        {
            "id": row["id"],
            "scope": row["scope"],
            "kind": row["kind"],
            "content": row["content"],
            "sourceThreadIds": row["source_thread_ids"],
            "createdAt": row["created_at"],
            "updatedAt": row["updated_at"],
            "invalidatedAt": row["retired_at"],
            "supersededBy": row["superseded_by"],
            "recalledAt": row["recalled_at"],
            "recallCount": row["recall_count"],
            "earlierWordings": orjson.loads(row["revisions"]),
            "writes": orjson.loads(row["writes"]),
        },
        option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE,
    )


def _new(path: Path) -> BinaryIO:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except FileExistsError:
        raise click.ClickException(f"{path} is there already: choose another file for --out") from None
