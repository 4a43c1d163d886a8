"""`memlane license keygen|mint|verify`."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from memlane.auth.licenses import (
    LicenseRejected,
    check_key_id,
    generate_keypair,
    mint_license,
    parse_trusted_keys,
    read_license,
)
from memlane.config import ConfigurationFaults, Fault
from memlane.domain.errors import Misconfigured


@click.group("license")
def license_group() -> None:
    """Make and check the signed license of a self-hosted deployment."""


@license_group.command()
@click.option("--key-id", default="main", show_default=True, help="The id that deployments know the key by.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Where the private key is written (mode 0600); never overwritten.",
)
def keygen(key_id: str, out: Path) -> None:
    """Make a signing key. Prints the line for MEMLANE_LICENSE_KEYS."""
    try:
        check_key_id(key_id)
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--key-id") from fault
    pair = generate_keypair()
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.ClickException(f"{out} exists; choose another file") from None
    except OSError as fault:
        raise click.ClickException(f"{out} cannot be written ({fault.strerror})") from fault
    with os.fdopen(handle, "w") as file:
        file.write(pair.private_pem)
    click.echo(f"{key_id}:{pair.public}")


@license_group.command()
@click.option(
    "--private-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="From keygen.",
)
@click.option("--key-id", default="main", show_default=True, help="As given to keygen.")
@click.option("--organization", required=True, help="The slug of the one organization that it is for.")
@click.option("--plan", default="enterprise", show_default=True)
@click.option("--feature", "features", multiple=True, default=("memory",), show_default=True, help="Repeatable.")
@click.option("--days", type=click.IntRange(1, 3660), default=365, show_default=True, help="How long it holds.")
def mint(private_key: Path, key_id: str, organization: str, plan: str, features: tuple[str, ...], days: int) -> None:
    """Sign a license and print it."""
    now = datetime.now(UTC)
    try:
        token = mint_license(
            # What is no text is no PEM either, and is told so.
            private_key.read_text(encoding="ascii", errors="replace"),
            key_id=key_id,
            organization=organization,
            plan=plan,
            features=dict.fromkeys(features, True),
            limits={},
            not_before=now,
            expires_at=now + timedelta(days=days),
            now=now,
        )
    except ValueError as fault:
        raise click.ClickException(str(fault)) from fault
    click.echo(token)


@license_group.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(as_json: bool) -> None:
    """Check MEMLANE_LICENSE against MEMLANE_LICENSE_KEYS, and say what it grants. Exits 1 when rejected."""
    names = ("MEMLANE_LICENSE", "MEMLANE_LICENSE_KEYS")
    missing = [Fault(name, "is required to verify a license") for name in names if not os.environ.get(name)]
    if missing:
        raise ConfigurationFaults(missing)
    now = datetime.now(UTC)
    try:
        keys = parse_trusted_keys(os.environ[names[1]])
    except Misconfigured as fault:
        raise ConfigurationFaults([Fault(names[1], fault.message)]) from None
    try:
        found = read_license(os.environ[names[0]].strip(), keys)
    except LicenseRejected as fault:
        raise click.ClickException(f"rejected ({fault.reason.value}): {fault}") from fault
    grants = found.entitlement
    fault_now = found.date_fault(now)
    report = {
        "valid": fault_now is None,
        "reason": None if fault_now is None else fault_now.value,
        "organization": grants.organization,
        "plan": grants.plan_code,
        "features": dict(grants.features),
        "notBefore": None if grants.not_before is None else grants.not_before.isoformat(),
        "expiresAt": None if grants.expires_at is None else grants.expires_at.isoformat(),
        "keyId": found.key_id,
    }
    if as_json:
        click.echo(json.dumps(report))
    else:
        for name, value in report.items():
            click.echo(f"{name:<13} {value}")
    if fault_now is not None:
        raise click.ClickException(f"rejected: {fault_now.value}")
