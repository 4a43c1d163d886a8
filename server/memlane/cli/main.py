"""The command line: `memlane <command>`. Each command is a file of its own in this package."""

import sys

import click

from memlane import __version__
from memlane.cli.backup import backup, restore
from memlane.cli.bench import bench
from memlane.cli.bench_recall import bench_recall
from memlane.cli.bench_scale import bench_scale
from memlane.cli.bench_stream import bench_stream
from memlane.cli.dev import dev
from memlane.cli.doctor import doctor
from memlane.cli.embeddings import embeddings
from memlane.cli.keys import keys
from memlane.cli.lanes import lanes
from memlane.cli.ledger import ledger
from memlane.cli.license import license_group
from memlane.cli.mcp import mcp_command
from memlane.cli.migrate import migrate_command
from memlane.cli.plain_text import guard_texts
from memlane.cli.probe import probe
from memlane.cli.projects import projects
from memlane.cli.purge import purge
from memlane.cli.serve import api, gateway, worker
from memlane.cli.transfer import export_command, import_command
from memlane.config import EXIT_MISCONFIGURED, ConfigurationFaults
from memlane.domain.errors import MemlaneError, Misconfigured
from memlane.observability.logs import set_up_logs
from memlane.storage.pool import refusal_of_connection


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="memlane")
def cli() -> None:
    """Memlane: an open memory backend for agent applications.

    `memlane dev` runs everything on this machine; `memlane api` serves a deployment.
    """


cli.add_command(api)
cli.add_command(backup)
cli.add_command(bench)
cli.add_command(bench_recall)
cli.add_command(bench_scale)
cli.add_command(bench_stream)
cli.add_command(dev)
cli.add_command(doctor)
cli.add_command(embeddings)
cli.add_command(export_command)
cli.add_command(gateway)
cli.add_command(worker)
cli.add_command(import_command)
cli.add_command(keys)
cli.add_command(lanes)
cli.add_command(ledger)
cli.add_command(license_group)
cli.add_command(mcp_command)
cli.add_command(migrate_command)
cli.add_command(projects)
cli.add_command(probe)
cli.add_command(restore)
cli.add_command(purge)
guard_texts(cli)


def main() -> None:
    """Run the command line; a domain error becomes a message and an exit code.

    Exit codes: 0 fine, 1 failed, 2 wrong usage, 75 a dependency does not answer (try again), 78 misconfigured.
    """
    # Standard output is a command's answer alone.
    set_up_logs("WARNING")
    try:
        code = cli(standalone_mode=False)
    except click.ClickException as fault:
        fault.show()
        sys.exit(fault.exit_code)
    except click.Abort:
        sys.exit(130)
    except ConfigurationFaults as fault:
        report_faults(fault)
        sys.exit(EXIT_MISCONFIGURED)
    except MemlaneError as fault:
        told = refusal_of_connection(fault.__cause__) or fault
        click.echo(f"memlane: {told.message}", err=True)
        sys.exit(EXIT_MISCONFIGURED if isinstance(told, Misconfigured) else 75 if told.retryable else 1)
    except OSError as fault:
        if fault.filename is None:
            raise
        click.echo(f"memlane: {fault.filename}: {fault.strerror}", err=True)
        sys.exit(1)
    # What a command exits with by click's own means comes back as a value.
    if isinstance(code, int):
        sys.exit(code)


def report_faults(faults: ConfigurationFaults) -> None:
    """Print every fault: name and reason, never a value."""
    click.echo(f"memlane: {len(faults.faults)} setting(s) are missing or wrong:", err=True)
    width = max(len(fault.name) for fault in faults.faults)
    for fault in faults.faults:
        click.echo(f"  {fault.name:<{width}}  {fault.reason}", err=True)
    click.echo("Set them and start again; `memlane doctor` checks the rest.", err=True)
