"""`memlane migrate`."""

import asyncio
import os

import click

from memlane.config import ConfigurationFaults, Fault, parse_database_url
from memlane.storage.migrate import Migration, migrate


def database_url_from(environment: "os._Environ[str]") -> str:
    """DATABASE_URL.

    Raises:
        ConfigurationFaults: It is not set, or no Postgres URL.
    """
    url = environment.get("DATABASE_URL", "").strip()
    if not url:
        raise ConfigurationFaults([Fault("DATABASE_URL", "is required: postgresql://user:password@host/database")])
    try:
        return parse_database_url(url)
    except ValueError as fault:
        raise ConfigurationFaults([Fault("DATABASE_URL", str(fault))]) from None


@click.command("migrate")
def migrate_command() -> None:
    """Bring the database of DATABASE_URL up to date; also creates the pgvector extension.

    Several runs at once wait for each other. Use a direct connection, not one through a transaction pooler.
    """
    url = database_url_from(os.environ)
    done = asyncio.run(migrate(url, on_step=_say))
    click.echo("The database is up to date." if not done else f"Applied {len(done)} migration(s).")


def _say(migration: Migration) -> None:
    click.echo(f"applying {migration.name}")
