"""`memlane api`, `memlane gateway` and `memlane worker`: the roles of a deployment."""

import os
import socket
import sys
from collections.abc import Awaitable, Callable

import click

from memlane.app import Process, application, build
from memlane.cli.server import bound_socket, run_loop, serve, serve_metrics
from memlane.config import Role, Settings
from memlane.domain.errors import Misconfigured
from memlane.observability.logs import set_up_logs
from memlane.observability.tracing import traces
from memlane.preflight import load_settings
from memlane.rest.console import Console

ALL_ROLES: frozenset[Role] = frozenset({"api", "gateway", "worker"})

_HOST = click.option("--host", default=None, help="Address to listen on. Default: MEMLANE_HOST or 0.0.0.0.")
_PORT = click.option(
    "--port", type=click.IntRange(1, 65535), default=None, help="Default: MEMLANE_PORT, or the role's own."
)


@click.command()
@_HOST
@_PORT
def api(host: str | None, port: int | None) -> None:
    """Serve REST, configured by the environment; port 4201 by default.

    Refuses to start, with exit code 78 and every fault at once, when a setting is missing or wrong, or when the
    embedder answers with another dimension than configured.
    """
    _run_role("api", host, port)


@click.command()
@_HOST
@_PORT
def gateway(host: str | None, port: int | None) -> None:
    """Serve the live stream; port 4401 by default. Needs REDIS_URL, and no embedder."""
    _run_role("gateway", host, port)


@click.command()
@_HOST
@_PORT
def worker(host: str | None, port: int | None) -> None:
    """Run the sweeps; port 4501 by default, for health alone. Any number may run."""
    _run_role("worker", host, port)


def _run_role(role: Role, host: str | None, port: int | None) -> None:
    settings = load_settings(os.environ, command=f"memlane {role}", role=role)
    set_up_logs(settings.log_level)
    bound = bound_socket(host or settings.host, port or settings.port)
    serve_metrics(settings.metrics_port, host or settings.host)
    with traces(settings.traces_endpoint, f"memlane-{role}"):
        code = run_loop(lambda: serve_process(settings, bound, frozenset({role})))
    sys.exit(code)


async def serve_process(
    settings: Settings,
    bound: socket.socket,
    roles: frozenset[Role] = ALL_ROLES,
    *,
    console: Console | None = None,
    on_ready: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Build the process and serve until a signal.

    Returns:
        The exit code: 0, or 1 when start-up failed.

    Raises:
        Misconfigured: A wrong setting ended the start.
    """
    refused: list[Misconfigured] = []

    async def start(process: Process) -> None:
        try:
            await process.start()
        except Misconfigured as fault:
            refused.append(fault)
            raise

    process = build(settings, roles, console=console)
    started = await serve(application(process, start), bound, on_ready=on_ready, drain=process.drain)
    if refused:
        raise refused[0]
    return 0 if started else 1
