"""What the operator's commands share: a pool for one command."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from memlane.cli.migrate import database_url_from
from memlane.domain.caller import Caller, KeyRecord, Provenance
from memlane.domain.errors import ValidationFailed
from memlane.domain.grant import FULL_GRANT
from memlane.domain.lane import Trust
from memlane.rest.credentials import provenance_of_meta
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.tenants import Project, Tenants

T = TypeVar("T")

OPERATOR_LANE = "operator"
"""The lane that the ledger names for writes by the operator's own commands."""


def with_pool(act: Callable[[Pool], Awaitable[T]]) -> T:
    """Run one command's work on the database of DATABASE_URL."""
    url = database_url_from(os.environ)

    async def run() -> T:
        pool = Pool(url, PoolLimits(max_size=4))
        try:
            return await act(pool)
        finally:
            await pool.aclose()

    return asyncio.run(run())


async def project_named(tenants: Tenants, slug: str) -> Project:
    """The project of this slug.

    Raises:
        click.ClickException: There is none.
    """
    project = await tenants.find_project(slug)
    if project is None:
        raise click.ClickException(
            f"there is no project {slug}; `memlane keys create --organization <slug> --project {slug}` makes it"
        )
    return project


def origin_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that writes: from what, and who wanted it."""
    source = click.option("--source", default=None, help="From what, as <type>:<id>, for the ledger: ticket:4711.")
    trigger = click.option("--triggered-by", default=None, help="Who wanted it, for the ledger.")
    return source(trigger(command))


def origin_of(run: str, source: str | None, triggered_by: str | None) -> Provenance:
    """What the ledger says of the origin of a command's writes.

    Raises:
        click.BadParameter: An option that is too long or not of its form.
    """
    said = {"memlane/source": source, "memlane/triggeredBy": triggered_by}
    try:
        return provenance_of_meta(said, Provenance(run=run, source_type="cli"))
    except ValidationFailed as fault:
        (wrong,) = fault.details
        option = "--source" if wrong.path == "memlane/source" else "--triggered-by"
        raise click.BadParameter(wrong.message, param_hint=option) from None


async def operator_of(tenants: Tenants, project: Project, request_id: str, origin: Provenance) -> Caller:
    """The operator as a writer: no key, and a lane of its own that the ledger names."""
    lane = await tenants.ensure_lane(project, OPERATOR_LANE, Trust.TRUSTED)
    return Caller(
        key=KeyRecord(
            id=None,
            short="",
            secret_sha256=b"",
            organization_id="",
            organization=project.organization,
            plan_code=None,
            project_id=project.id,
            project=project.slug,
            lane=lane,
            grant=FULL_GRANT,
            expires_at=None,
            revoked_at=None,
            screens_secrets=project.screens_secrets,
        ),
        user_id="",
        grant=FULL_GRANT,
        request_id=request_id,
        provenance=origin,
    )
