"""`memlane export` and `memlane import`: a project's memories as JSON lines."""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO
from uuid import UUID

import click
import orjson
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError
from uuid_utils import uuid7

from memlane.app import build
from memlane.cli.export_file import Marks, export_file, is_mark
from memlane.cli.operator import operator_of, origin_of, origin_options, project_named, with_pool
from memlane.cli.personal import export_user
from memlane.cli.progress import progress
from memlane.cli.server import run_loop
from memlane.domain.memory import Draft
from memlane.preflight import load_settings
from memlane.rest.credentials import USER_ID_MAX
from memlane.rest.models import MemoryDraft
from memlane.screening.secrets import DetectSecrets
from memlane.storage.pool import Pool
from memlane.storage.store import PostgresStore
from memlane.storage.tenants import Tenants
from memlane.usecases.import_memories import ImportCount, ImportedMemory, import_memories
from memlane.usecases.ports import ExportedMemory
from memlane.usecases.screening import secret_of
from memlane.usecases.silent_hints import SilentHints
from memlane.usecases.wording import EMBED_MAX

PAGE = 500
"""Rows of one export page."""
FAULTS_SHOWN = 5
"""Most bad lines that are described."""


_OWN_REASONS = {"nul_character", "blank_text", "unreachable_user", "outside_of_utc"}
"""Faults whose words are ours, and never quote."""
_INFINITE = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
"""The very first and the very last moment: the driver would store them as infinity."""
_NO_HEADER = re.compile(r"[\0-\x08\x0a-\x1f\x7f]")
"""What no header can carry (RFC 9110, section 5.5)."""


def _reachable(user_id: str) -> str:
    # A request's header names the user, and white space around it is cut.
    if user_id != user_id.strip() or _NO_HEADER.search(user_id):
        raise PydanticCustomError(
            "unreachable_user", "must have no white space around it and no control character: no request could name it"
        )
    return user_id


def _in_utc(moment: datetime) -> datetime:
    try:
        found = moment.astimezone(UTC)
    except OverflowError:
        found = _INFINITE[1]
    if found in _INFINITE:
        raise PydanticCustomError("outside_of_utc", "must lie within the years 1 to 9999 of UTC")
    return found


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class ExportLine(MemoryDraft):
    """One line of an export."""

    model_config = ConfigDict(extra="forbid", strict=False, frozen=True)

    id: UUID
    userId: Annotated[str, Field(max_length=USER_ID_MAX), AfterValidator(_reachable)]  # noqa: N815 - the wire's name
    createdAt: Moment  # noqa: N815
    updatedAt: Moment  # noqa: N815
    invalidatedAt: Moment | None  # noqa: N815


@click.group("export", invoke_without_command=True)
@click.option("--project", default=None, help="The project's slug.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="The file; one that a broken export left is continued.",
)
@click.option("--replace", is_flag=True, help="Write the file anew, whatever it holds; the old one stays until then.")
@click.pass_context
def export_command(context: click.Context, project: str | None, out: Path | None, replace: bool) -> None:
    """Write a project's memories of every user, live and retired, as JSON lines.

    The first line names the project and the last one counts, so that an import can tell a file that is whole.
    `memlane export user` writes all that is kept of one person.
    """
    if context.invoked_subcommand is not None:
        return
    if project is None or out is None:
        raise click.UsageError("--project and --out are needed")
    click.echo(f"{_export_project(project, out, replace=replace)} memories in {out}", err=True)


export_command.add_command(export_user)


def _export_project(project: str, out: Path, *, replace: bool) -> int:

    async def act(pool: Pool) -> int:
        found = await project_named(Tenants(pool), project)
        store = PostgresStore(pool, SilentHints())
        with export_file(out, found, replace=replace) as file, progress() as bar:
            task = bar.add_task("exporting", total=await store.count_memories(found.id), completed=file.written)
            while page := await store.export_page(found.id, file.after, PAGE):
                file.add([_line_of(one) for one in page], page[-1].memory.id)
                bar.update(task, completed=file.written)
            file.finish()
        return file.written

    return with_pool(act)


@click.command("import")
@click.option("--project", required=True, help="The project's slug; it must exist.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--incomplete", is_flag=True, help="Take a file that is not whole: its export broke off, or it was cut.")
@origin_options
def import_command(project: str, file: Path, incomplete: bool, source: str | None, triggered_by: str | None) -> None:
    """Bring the memories of an export into a project, with their ids and dates.

    Repeating it changes nothing: a broken import is simply run again. The whole file is checked first; when a
    line is bad, nothing is written. Needs the settings of `memlane api`, as texts are embedded anew.
    """
    settings = load_settings(os.environ, command="memlane import")
    import_id = f"import-{uuid7()}"
    origin = origin_of(import_id, source, triggered_by)
    total, secrets = _check(file, DetectSecrets(), incomplete=incomplete)

    async def run() -> ImportCount:
        process = build(settings, frozenset({"api"}))
        try:
            tenants = Tenants(process.pool)
            found = await project_named(tenants, project)
            if found.screens_secrets:
                _refuse(secrets)
            operator = await operator_of(tenants, found, import_id, origin)
            count = ImportCount()
            services = process.services
            if services is None:
                raise RuntimeError("the role api has services")
            with file.open("rb") as lines, progress() as bar:
                task = bar.add_task("importing", total=total)
                for chunk in _chunks(lines):
                    count = count.plus(await import_memories(services, operator, chunk))
                    bar.update(task, advance=len(chunk))
            return count
        finally:
            await process.stop()

    count = run_loop(run)
    click.echo(f"{count.written} written, {count.absorbed} absorbed, {count.present} already there", err=True)


def _line_of(exported: ExportedMemory) -> bytes:
    memory = exported.memory
    return orjson.dumps(
        {
            "id": memory.id,
            "userId": exported.user_id,
            "scope": memory.scope,
            "kind": memory.kind,
            "content": memory.content,
            "sourceThreadIds": memory.source_thread_ids,
            "createdAt": memory.created_at,
            "updatedAt": memory.updated_at,
            "invalidatedAt": memory.invalidated_at,
        },
        option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE,
    )


def _check(file: Path, scanner: DetectSecrets, *, incomplete: bool) -> tuple[int, list[str]]:
    """How many memories there are, and which of them hold a credential."""
    if not file.is_file():
        raise click.ClickException(f"{file} is no regular file; it is read twice, so write it to one first")
    total, faults, secrets = 0, [], []
    marks = Marks()
    owners: dict[str, int] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if marks.take(line):
                    continue
                memory = _parsed(line)
                _note_owner(owners, memory)
                found = secret_of(scanner, memory.draft.content, memory.draft.source_thread_ids)
                if found is not None:
                    path, kind = found
                    secrets.append(f"line {number}: {path} holds a credential ({kind})")
            except ValueError as fault:
                faults.append(f"line {number}: {fault}")
            total += 1
    _refuse(faults)
    lack = marks.lack()
    if lack is not None and not incomplete:
        raise click.ClickException(
            f"nothing was imported: {lack}. Export again, or add --incomplete to import what there is"
        )
    return total, secrets


def _note_owner(owners: dict[str, int], memory: ImportedMemory) -> None:
    # A hash keeps this small for files of millions of lines.
    owner = hash((memory.user_id, memory.draft.scope))
    if owners.setdefault(memory.id, owner) != owner:
        raise ValueError("id stands above already, for another user or scope")


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        more = f"\n  and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
        raise click.ClickException(
            "nothing was imported, as some lines are bad:\n  " + "\n  ".join(faults[:FAULTS_SHOWN]) + more
        )


def _parsed(line: bytes) -> ImportedMemory:
    """One line.

    Raises:
        ValueError: It is bad; names the fields and never quotes them.
    """
    try:
        parsed = ExportLine.model_validate_json(line)
    except ValidationError as fault:
        wrong = fault.errors(include_url=False, include_input=False, include_context=False)
        raise ValueError(", ".join(sorted({_reason(error) for error in wrong}))) from None
    if (parsed.scope == "project") != (parsed.userId == ""):
        raise ValueError("userId must be empty in the project scope, and only there")
    return ImportedMemory(
        id=str(parsed.id),
        user_id=parsed.userId,
        draft=Draft(parsed.content, parsed.kind, parsed.scope, tuple(parsed.sourceThreadIds)),
        created_at=parsed.createdAt,
        retired=parsed.invalidatedAt is not None,
    )


def _reason(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "a field that no export has"
    where = ".".join(str(part) for part in error["loc"]) or "the line"
    return f"{where} {error['msg'] if error['type'] in _OWN_REASONS else 'missing or wrong'}"


def _chunks(lines: BinaryIO) -> Iterator[list[ImportedMemory]]:
    chunk: list[ImportedMemory] = []
    for line in lines:
        if is_mark(line):
            continue
        chunk.append(_parsed(line))
        if len(chunk) == EMBED_MAX:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
