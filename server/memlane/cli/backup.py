"""`memlane backup` and `memlane restore`: pg_dump and pg_restore, with what they cannot know of us."""

import hashlib
import json
import os
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import click

from memlane import __version__
from memlane.cli.migrate import database_url_from
from memlane.cli.server import run_loop
from memlane.domain.errors import Misconfigured
from memlane.embedded.binaries import CHILD_ENVIRONMENT, PostgresVersion, locate
from memlane.storage.backups import (
    LEAST_RECALL,
    Counts,
    Proof,
    count_everything,
    frozen,
    has_house,
    plain_connection,
    prove_recall,
    renew_epochs,
)
from memlane.storage.migrate import migrate, migrations

FACTS_FORMAT = 1
_CHUNK = 1 << 20
_NEWEST_OF_16 = 16
"""The bundled tools of Postgres 16 are for servers up to it: those of 18 set what older servers do not know."""

_PG_BIN = click.option(
    "--pg-bin",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="Folder of pg_dump and pg_restore, for a Postgres newer than 18. Default: the ones that come along.",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What stands beside a backup, in `<file>.json`: of which moment it is, and what it must hold."""

    taken_at: str
    memlane: str
    server: int
    migrations: int
    sha256: str
    counts: Counts
    format: int = FACTS_FORMAT


class ToolFailed(Misconfigured):
    """pg_dump or pg_restore failed."""


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file; it may not exist yet."
)
@_PG_BIN
def backup(out: Path, pg_bin: Path | None) -> None:
    """Write the whole database of DATABASE_URL to a file, while the service runs on.

    Beside it, in FILE.json, stand its checksum and what it holds. Both hold personal data: keep them so. Use a
    direct connection, not one through a transaction pooler.
    """
    url = database_url_from(os.environ)
    if out.exists():
        raise click.ClickException(f"{out} exists: choose another --out")
    facts = run_loop(lambda: _back_up(url, out, pg_bin))
    click.echo(f"{_said(facts.counts)}\n{out}: {out.stat().st_size:,} bytes, sha256 {facts.sha256}")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--sample", type=click.IntRange(0, 100_000), default=200, show_default=True, help="Memories to prove recall with."
)
@_PG_BIN
def restore(file: Path, sample: int, pg_bin: Path | None) -> None:
    """Read a backup into the empty database of DATABASE_URL, bring it up to date, and prove that it recalls.

    Every channel gets another epoch, so that every open page reads its memories anew. The proof compares recall
    with a scan of every vector. Exits 1 when something is missing or recall differs from the scan.
    """
    url = database_url_from(os.environ)
    facts = _facts_of(file)
    counts, channels, proof = run_loop(lambda: _restore(url, file, sample, pg_bin))
    click.echo(f"{_said(counts)}\n{channels} channels have a new epoch: every stream reads them anew.")
    click.echo(
        f"Recall gave {proof.recall:.2%} of what an exact scan gives, for {proof.asked} memories of "
        f"{proof.channels} channels."
    )
    if facts is not None and counts != facts.counts:
        raise click.ClickException(f"the backup held {_said(facts.counts)}: this database is not whole, do not use it")
    if not proof.good:
        raise click.ClickException(f"recall is below {LEAST_RECALL:.0%} of the exact answer: do not use this database")
    click.echo("Revoke keys, purge persons and end sessions again that were since the backup (docs/operations.md).")


async def _back_up(url: str, out: Path, pg_bin: Path | None) -> Facts:
    part = out.with_name(out.name + ".part")
    async with plain_connection(url) as connection, frozen(connection) as (snapshot, counts):
        server = connection.get_server_version().major
        # The file is its owner's alone, from its first byte on.
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        try:
            words = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}", f"--file={part}"]
            _run(_tool("pg_dump", server, pg_bin), words, url)
            facts = Facts(
                taken_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                memlane=__version__,
                server=server,
                migrations=len(migrations()),
                sha256=_sha256(part),
                counts=counts,
            )
            beside = os.open(_beside(out), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(beside, "w") as file:
                json.dump(asdict(facts), file, indent=2)
            part.rename(out)
        finally:
            part.unlink(missing_ok=True)
    return facts


async def _restore(url: str, file: Path, sample: int, pg_bin: Path | None) -> tuple[Counts, int, Proof]:
    async with plain_connection(url) as connection:
        if await has_house(connection):
            raise click.ClickException(
                "the database of DATABASE_URL is not empty: create another one and restore there"
            )
        server = connection.get_server_version().major
        words = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", "--no-comments"]
        _run(_tool("pg_restore", server, pg_bin), [*words, str(file)], url)
        # Counted before the migrations: they may add rows of their own.
        counts = await count_everything(connection)
        await migrate(url)
        channels = await renew_epochs(connection)
    return counts, channels, await prove_recall(url, sample)


def _facts_of(file: Path) -> Facts | None:
    """What stands beside a backup, once its checksum has been compared; None when nothing does."""
    beside = _beside(file)
    if not beside.exists():
        click.echo(f"{beside} is missing: what the backup must hold cannot be checked.", err=True)
        return None
    try:
        facts = Facts(**json.loads(beside.read_text()))
    except (ValueError, TypeError):
        raise click.ClickException(f"{beside} is not of a backup") from None
    if facts.format != FACTS_FORMAT:
        raise click.ClickException(f"{beside} is of a newer version of memlane: install that one")
    if facts.migrations > len(migrations()):
        raise click.ClickException(f"the backup is of memlane {facts.memlane}, which is newer: install that one")
    if _sha256(file) != facts.sha256:
        raise click.ClickException(f"{file} is not what was written: its checksum differs from {beside}")
    return facts


def _tool(name: str, server: int, pg_bin: Path | None) -> str:
    if pg_bin is not None:
        return str(pg_bin / name)
    version: PostgresVersion = 16 if server <= _NEWEST_OF_16 else 18
    if server > version:
        raise Misconfigured(f"the server is Postgres {server}: give the folder of its own tools with --pg-bin")
    found = locate(version)
    return found.pg_dump if name == "pg_dump" else found.pg_restore


def _run(program: str, words: list[str], url: str) -> None:
    """Run a tool on a database.

    Raises:
        ToolFailed: It failed. Its message is shown as far as it quotes no row.
    """
    place, secrets = connection_words(url)
    try:
        ran = subprocess.run(  # noqa: S603 - a tool of Postgres with words of ours
            [program, f"--dbname={place}", *words],
            env={**CHILD_ENVIRONMENT, **secrets},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as fault:
        raise ToolFailed(f"{program} cannot be started ({fault.strerror})") from None
    if ran.returncode != 0:
        own = [
            line[:300] for line in ran.stderr.splitlines() if line.startswith(("pg_dump: error", "pg_restore: error"))
        ]
        raise ToolFailed("; ".join(own[:3]) or f"{Path(program).name} ended with {ran.returncode}")


def connection_words(url: str) -> tuple[str, dict[str, str]]:
    """A connection string without its password, which goes into the environment: arguments are for all to see."""
    split = urlsplit(url)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    password = query.pop("password", None) or (unquote(split.password) if split.password else None)
    user = f"{quote(unquote(split.username), safe='')}@" if split.username else ""
    hosts = split.netloc.rpartition("@")[2]
    place = urlunsplit((split.scheme, user + hosts, split.path, urlencode(query, quote_via=quote, safe="/"), ""))
    return place, {} if password is None else {"PGPASSWORD": password}


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _beside(file: Path) -> Path:
    return file.with_name(file.name + ".json")


def _said(counts: dict[str, Any]) -> str:
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items())
