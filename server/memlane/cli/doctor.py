"""`memlane doctor`: checks what `memlane api` needs, and more, and prints a table."""

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import asyncpg
import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memlane.auth.licenses import parse_trusted_keys, read_license
from memlane.cli.server import run_loop
from memlane.config import EXIT_MISCONFIGURED, ConfigurationFaults, Settings
from memlane.domain.errors import MemlaneError
from memlane.embedding.configured import make_embedder
from memlane.preflight import load_settings
from memlane.realtime.redis_fanout import examine
from memlane.storage.migrate import OLDEST_SERVER, applied_migrations, migrations, pending

State = Literal["ok", "warning", "failed"]
LICENSE_WARNING = timedelta(days=30)
"""A license that ends within this time is a warning."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table."""

    check: str
    state: State
    detail: str


@click.command()
@click.option("--config-only", is_flag=True, help="Only the settings; nothing is reached.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(config_only: bool, as_json: bool) -> None:
    """Check settings, database, pgvector, migrations, embedder, license and, where one is set, Redis.

    Exits 0 when nothing failed, 78 when a setting is wrong, 1 when something else failed.
    """
    settings, findings = _check_settings()
    if settings is not None and not config_only:
        findings += run_loop(lambda: _check_all(settings))
    failed = any(finding.state == "failed" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": not failed, "findings": [asdict(finding) for finding in findings]}))
    else:
        _print(findings)
    if failed:
        raise click.exceptions.Exit(EXIT_MISCONFIGURED if settings is None else 1)


def _check_settings() -> tuple[Settings | None, list[Finding]]:
    try:
        settings = load_settings(os.environ)
    except ConfigurationFaults as faults:
        return None, [Finding(fault.name, "failed", fault.reason) for fault in faults.faults]
    findings = [Finding("settings", "ok", "complete")]
    if settings.deployment_mode == "self_hosted":
        findings.append(_check_license(settings))
    return settings, findings


def _check_license(settings: Settings) -> Finding:
    # One that is no license of these keys is a wrong setting, and was told as such.
    found = read_license(settings.license or "", parse_trusted_keys(settings.license_keys or ""))
    now = datetime.now(UTC)
    fault_now = found.date_fault(now)
    grants = found.entitlement
    until = "never" if grants.expires_at is None else f"{grants.expires_at:%Y-%m-%d}"
    if fault_now is not None:
        return Finding("license", "failed", f"{fault_now.value}; it ends {until}")
    if grants.features.get("memory") is not True:
        return Finding("license", "failed", "it does not carry the feature memory")
    soon = grants.expires_at is not None and grants.expires_at - now < LICENSE_WARNING
    return Finding("license", "warning" if soon else "ok", f"for {grants.organization}, until {until}")


async def _check_all(settings: Settings) -> list[Finding]:
    findings = [*await _check_database(settings), await _guarded("embedder", lambda: _check_embedder(settings))]
    if settings.redis_url is not None:
        findings.append(await _guarded("redis", lambda: _check_redis(settings.redis_url or "")))
    return findings


async def _check_redis(url: str) -> str:
    await examine(url)
    return "answers, and takes hints"


async def _guarded(name: str, check: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(name, "ok", await check())
    except MemlaneError as fault:
        return Finding(name, "failed", fault.message)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as fault:
        return Finding(name, "failed", f"cannot be read ({type(fault).__name__}): check the rights of the role")


async def _check_embedder(settings: Settings) -> str:
    embedder = make_embedder(settings)
    try:
        await embedder.probe()
    finally:
        await embedder.aclose()
    return f"{embedder.space.model}, {embedder.space.dimensions} dimensions"


async def _check_database(settings: Settings) -> list[Finding]:
    try:
        connection = await asyncpg.connect(settings.database_url, timeout=5.0, command_timeout=5.0)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as fault:
        return [Finding("database", "failed", f"cannot connect ({type(fault).__name__}): check DATABASE_URL")]
    try:
        number = int(await connection.fetchval("select current_setting('server_version_num')"))
        findings = [
            Finding(
                "database",
                "ok" if number >= OLDEST_SERVER else "failed",
                f"Postgres {number // 10000}.{number % 10000}"
                + ("" if number >= OLDEST_SERVER else "; 14 is the oldest"),
            )
        ]
        vector = await connection.fetchval("select extversion from pg_extension where extname = 'vector'")
        findings.append(
            Finding("pgvector", "failed", "not in this database: run `memlane migrate`")
            if vector is None
            else Finding("pgvector", "ok", str(vector))
        )
        findings.append(await _guarded("migrations", lambda: _check_migrations(connection)))
        return findings
    finally:
        await connection.close(timeout=2.0)


async def _check_migrations(connection: "asyncpg.Connection[asyncpg.Record]") -> str:
    left = pending(await applied_migrations(connection), migrations())
    if left:
        raise MemlaneError(f"{len(left)} missing: run `memlane migrate`")
    return f"{len(migrations())} applied"


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, header_style="bold")
    for name in ("check", "state", "detail"):
        table.add_column(name)
    styles = {"ok": "green", "warning": "yellow", "failed": "bold red"}
    for finding in findings:
        table.add_row(finding.check, Text(finding.state, styles[finding.state]), Text(finding.detail))
    Console().print(table)
