"""`memlane purge user|project|memory`: erasure, with a receipt."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import click
import orjson
from asyncpg.exceptions import InterfaceError, PostgresError
from uuid_utils import uuid7

from memlane.cli.keys import slug_option
from memlane.cli.migrate import database_url_from
from memlane.cli.operator import operator_of, origin_of, origin_options, project_named
from memlane.cli.progress import progress
from memlane.domain.caller import Caller, Provenance
from memlane.domain.errors import StorageUnavailable
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.purge import Purge, PurgeTarget, connect_for_purge
from memlane.storage.purge_vacuum import TABLES, vacuum
from memlane.storage.tenants import Tenants

NOT_REACHED = (
    (
        "bytes in the data files that are free but not written over yet, and word stems in the index "
        "memories_project_terms: `VACUUM FULL memories` writes both anew, and locks the table meanwhile"
    ),
    (
        "the user's id, and what callers sent as run, source and trigger of a write: these stand in the channel and in "
        "the ledger"
    ),
    "WAL segments and archives that were written before: they go as they are recycled or expire",
    "base backups, dumps, snapshots and replicas that were stopped before this purge",
    "files of `memlane export`, and copies that a client or an agent made",
    "the database server's own log, where it logs statements with their values",
    "what other memories say about the person: search for those and purge them by their ids",
)
"""What this program cannot erase; told in every receipt."""
HELD_BACK = (
    "row versions that open transactions or replication slots (`heldBackBy`: a running dump, a standby) may still "
    "read: once these have ended, run the purge again"
)

_PROJECT = click.option("--project", required=True, callback=slug_option, help="The project's slug.")


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of every purge."""

    dry_run: bool
    yes: bool
    source: str | None
    triggered_by: str | None


def _options(command: Callable[..., None]) -> Callable[..., None]:
    dry = click.option("--dry-run", is_flag=True, help="Count what would be erased, and change nothing.")
    yes = click.option("--yes", is_flag=True, help="Do not ask.")
    return dry(yes(origin_options(command)))


@click.group()
def purge() -> None:
    """Erase content, vectors, terms and revisions for good; tombstones and the ledger without wording stay.

    Runs in small batches beside live traffic; one that broke off is simply run again. Prints a receipt as JSON. Needs
    a direct connection to the database, as its owner, not one through a transaction pooler.
    """


@purge.command()
@click.argument("user_id")
@_PROJECT
@_options
def user(user_id: str, project: str, **asked: Any) -> None:
    """Erase a user's memories, and the answers kept for their requests."""
    if not user_id:
        raise click.BadParameter("a user's id is not empty")
    _purge(project, {"kind": "user", "id": user_id}, _Asked(**asked))


@purge.command()
@click.argument("memory_id", type=click.UUID)
@_PROJECT
@_options
def memory(memory_id: UUID, project: str, **asked: Any) -> None:
    """Erase one memory, live or retired."""
    _purge(project, {"kind": "memory", "id": str(memory_id)}, _Asked(**asked))


@purge.command("project")
@click.argument("project", callback=slug_option)
@_options
def whole_project(project: str, **asked: Any) -> None:
    """Erase all memories of a project: of every user, and its own."""
    _purge(project, {"kind": "project", "id": project}, _Asked(**asked))


def _purge(project: str, target: dict[str, str], asked: _Asked) -> None:
    dsn = database_url_from(os.environ)
    purge_id = f"purge-{uuid7()}"
    origin = None if asked.dry_run else origin_of(purge_id, asked.source, asked.triggered_by)
    if not (asked.dry_run or asked.yes):
        click.confirm(f"Erase the {target['kind']} {target['id']} of the project {project} for good?", abort=True)
    receipt = asyncio.run(_carry_out(dsn, project, target, purge_id, origin))
    click.echo(orjson.dumps(receipt, option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2).decode())


async def _carry_out(
    dsn: str, project: str, target: dict[str, str], purge_id: str, origin: Provenance | None
) -> dict[str, Any]:
    """The receipt; without an origin nothing is changed."""
    began = datetime.now(UTC)
    pool = Pool(dsn, PoolLimits(max_size=1))
    try:
        tenants = Tenants(pool)
        found = await project_named(tenants, project)
        operator = None if origin is None else await operator_of(tenants, found, purge_id, origin)
    finally:
        await pool.aclose()
    aim = PurgeTarget(
        found.id,
        user_id=target["id"] if target["kind"] == "user" else None,
        memory_id=target["id"] if target["kind"] == "memory" else None,
    )
    connection = await connect_for_purge(dsn)
    try:
        work = Purge(connection, aim)
        receipt: dict[str, Any] = {"receipt": purge_id, "project": project, "target": target, "startedAt": began}
        return receipt | await _translated(lambda: _work(work, connection, operator))
    finally:
        connection.terminate()


async def _work(
    purge: Purge, connection: "asyncpg.Connection[asyncpg.Record]", operator: Caller | None
) -> dict[str, Any]:
    """The purge and what came of it; without an operator only what there is to do."""
    before = await purge.survey()
    if operator is None:
        return {"dryRun": True, "found": _camel(asdict(before)), "notReached": NOT_REACHED}
    with progress() as bar:
        task = bar.add_task("erasing", total=before.memories)
        done = await purge.run(operator, lambda count: bar.update(task, advance=count))
        bar.add_task("vacuuming", total=None)
        vacuumed = await vacuum(connection)
    after = await purge.survey()
    return {
        "dryRun": False,
        "erased": _camel({name: value for name, value in asdict(done.done).items() if name != "tombstones"}),
        "tombstones": after.tombstones,
        "writtenMeanwhile": after.memories,
        "batches": done.batches,
        "longestLockMs": round(done.longest_lock_seconds * 1000, 1),
        "vacuumed": [table for table in TABLES if table not in vacuumed.refused],
        "notVacuumed": vacuumed.refused,
        "heldBackBy": vacuumed.held_back,
        "endedAt": datetime.now(UTC),
        "notReached": [*([HELD_BACK] if vacuumed.held_back else []), *NOT_REACHED],
    }


async def _translated(act: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    try:
        return await act()
    except (OSError, PostgresError, InterfaceError) as fault:
        raise StorageUnavailable(
            f"the purge broke off ({type(fault).__name__}); what was erased stays erased: run it again"
        ) from fault


def _camel(values: dict[str, int]) -> dict[str, int]:
    def name(words: str) -> str:
        first, *rest = words.split("_")
        return first + "".join(word.capitalize() for word in rest)

    return {name(words): value for words, value in values.items()}
