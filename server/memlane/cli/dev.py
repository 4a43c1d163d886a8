"""`memlane dev`: everything on this machine, in one process and one Postgres, on loopback only."""

import asyncio
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.panel import Panel

from memlane.cli.dev_log import KeptLog
from memlane.cli.dev_state import ORGANIZATION, PROJECT, DevState, load_dev_state, with_new_key, write_private
from memlane.cli.serve import serve_process
from memlane.cli.server import bound_socket, run_loop
from memlane.config import Settings
from memlane.domain.grant import FULL_GRANT
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.observability.logs import log, set_up_logs
from memlane.observability.supervisor import Supervisor
from memlane.rest.console import Console as ConsolePage
from memlane.storage.migrate import migrate
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.tenants import NewKey, Tenants

HOST = "127.0.0.1"
CONSOLE = Path(__file__).parents[3] / "client-js" / "console" / "dist"
"""The built console of a checkout; `make console` makes it."""


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=4201, show_default=True, help="On loopback.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".memlane"),
    show_default=True,
    help="Everything that is kept: the database, the key, the log.",
)
@click.option(
    "--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO", show_default=True
)
def dev(port: int, data_dir: Path, log_level: str) -> None:
    """Run the whole product here: embedded Postgres, offline embedder, REST.

    A second start reuses the data. Ctrl-C stops everything; to begin anew, delete the data folder.
    """
    console = Console(stderr=True)
    bound = bound_socket(HOST, port)
    data_dir = data_dir.resolve()
    postgres = EmbeddedPostgres(data_dir / "postgres")

    async def run() -> int:
        with console.status("Starting Postgres…"):
            await postgres.start()
        try:
            state = load_dev_state(data_dir / "dev.json")
            with console.status("Preparing the database…"):
                await migrate(postgres.dsn())
                kept, state = state, await _seed(postgres.dsn(), state, data_dir / "dev.json")
            if state.runtime_key != kept.runtime_key:
                console.print("The dev key was revoked, so a new one was made; see dev.env.")
            settings = _settings(postgres.dsn(), state)
            # Opened late: until here faults go to the terminal.
            with KeptLog(data_dir / "memlane.log") as log_file:
                set_up_logs(log_level, log_file.as_stream())
                keeper = Supervisor()
                keeper.start("postgres", lambda: _keep_postgres(postgres))
                try:
                    return await serve_process(
                        settings,
                        bound,
                        console=ConsolePage(state.runtime_key, port, CONSOLE),
                        on_ready=lambda: _ready(console, data_dir, port, state, settings),
                    )
                finally:
                    await keeper.aclose()
                    set_up_logs(log_level)
        finally:
            with console.status("Stopping Postgres…"):
                await postgres.stop()
            console.print("Stopped.")

    sys.exit(run_loop(run))


async def _keep_postgres(postgres: EmbeddedPostgres) -> None:
    while True:
        await postgres.died()
        log.error("postgres_died", log=postgres.log_path.name)
        await postgres.start()
        log.warning("postgres_restarted", pid=postgres.pid)
        await asyncio.sleep(0)


async def _seed(dsn: str, state: DevState, path: Path) -> DevState:
    """Make the dev project and its key; the state, with another key in place of one that was revoked."""
    pool = Pool(dsn, PoolLimits(max_size=1))
    try:
        tenants = Tenants(pool)
        project = await tenants.ensure_project(ORGANIZATION, PROJECT)
        keys = {key["short"]: key for key in await tenants.list_keys(project)}
        stored = keys.get(state.token.short)
        if stored is not None and stored["revoked_at"] is not None:
            state = with_new_key(state, path)
            stored = None
        if stored is None:
            token = state.token
            await tenants.add_key(project, NewKey(token.short, token.hash(), "memlane dev", FULL_GRANT))
        return state
    finally:
        await pool.aclose()


def _settings(dsn: str, state: DevState) -> Settings:
    return Settings(
        database_url=dsn,
        deployment_mode="self_hosted",
        join_secrets=state.join_secret,
        embeddings_url="local://",
        embedding_model="all-MiniLM-L6-v2-int8",
        embedding_dimensions=384,
        license=state.license_at(datetime.now(UTC)),
        license_keys=state.license_keys,
        host=HOST,
    )


def _environment(settings: Settings) -> dict[str, str]:
    return {
        "DATABASE_URL": settings.database_url,
        "MEMLANE_DEPLOYMENT_MODE": settings.deployment_mode,
        "MEMLANE_JOIN_SECRETS": settings.join_secrets,
        "MEMLANE_LICENSE": settings.license or "",
        "MEMLANE_LICENSE_KEYS": settings.license_keys or "",
        "MEMORY_EMBEDDINGS_URL": settings.embeddings_url,
        "MEMORY_EMBEDDING_MODEL": settings.embedding_model,
        "MEMORY_EMBEDDING_DIMENSIONS": str(settings.embedding_dimensions),
    }


def _lines(variables: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


async def _ready(console: Console, data_dir: Path, port: int, state: DevState, settings: Settings) -> None:
    url = f"http://{HOST}:{port}"
    variables = {
        "MEMLANE_API_URL": url,
        "MEMLANE_WS_URL": f"ws://{HOST}:{port}/client",
        "MEMLANE_API_KEY": state.runtime_key,
    }
    write_private(
        data_dir / "dev.env",
        "# Written by memlane dev. In a shell: set -a; . .memlane/dev.env; set +a\n"
        + _lines(variables)
        + "# For the operator's commands: memlane keys, export, import, doctor.\n"
        + _lines(_environment(settings)),
    )
    try:
        shown = data_dir.relative_to(Path.cwd())
    except ValueError:
        shown = data_dir
    head = f"""\
[bold]Memlane is ready[/] on [cyan]{url}[/]

Console        [cyan]{url}/[/]
API reference  [cyan]{url}/api/docs[/]
Settings       {shown}/dev.env   (source it in a script)
Log            {shown}/memlane.log"""
    console.print()
    console.print(Panel(head, border_style="green", expand=False, padding=(1, 2)))
    console.print("Try it: save a memory, then recall it in other words. Paste this in another terminal:\n")
    # Printed without wrapping, so that it can be copied.
    console.print(_curl(url, state), soft_wrap=True, highlight=False, markup=False)
    console.print("\nCtrl-C stops everything; the data stays.")


def _curl(url: str, state: DevState) -> str:
    headers = (
        f"-H 'Authorization: Bearer {state.runtime_key}' -H 'X-Cpki-User-Id: ada' -H 'Content-Type: application/json'"
    )
    return (
        f"curl -s {url}/api/memories {headers} "
        """-d '{"content":"Prefers concise status updates.","kind":"operational"}'; echo\n"""
        f"curl -s {url}/api/memories/recall {headers} "
        """-d '{"query":"how does this user like updates"}'; echo"""
    )
