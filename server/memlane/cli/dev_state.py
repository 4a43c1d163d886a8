"""What `memlane dev` makes once and keeps in its data folder: a runtime key, a join secret, a license.

The file has mode 0600. It is for this machine alone: nothing in it is a secret of a deployment.
"""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from memlane.auth.licenses import generate_keypair, mint_license
from memlane.auth.runtime_keys import RuntimeKeyToken, mint_runtime_key, parse_runtime_key

ORGANIZATION = "dev"
PROJECT = "dev"
KEY_ID = "dev"
LICENSE_DAYS = 30
"""A new license is made at each start, so a folder that was not used for long works again."""


@dataclass(frozen=True, slots=True)
class DevState:
    """The kept part."""

    runtime_key: str = field(repr=False)
    join_secret: str = field(repr=False)
    license_private_pem: str = field(repr=False)
    license_public: str

    @property
    def token(self) -> RuntimeKeyToken:
        """The runtime key, parsed."""
        token = parse_runtime_key(self.runtime_key)
        if token is None:
            raise ValueError("not a runtime key")
        return token

    @property
    def license_keys(self) -> str:
        """As MEMLANE_LICENSE_KEYS wants it."""
        return f"{KEY_ID}:{self.license_public}"

    def license_at(self, now: datetime) -> str:
        """A license for the dev organization, valid from now on."""
        return mint_license(
            self.license_private_pem,
            key_id=KEY_ID,
            organization=ORGANIZATION,
            plan="enterprise",
            features={"memory": True},
            limits={},
            not_before=now - timedelta(minutes=5),
            expires_at=now + timedelta(days=LICENSE_DAYS),
            now=now,
        )


def load_dev_state(path: Path) -> DevState:
    """The kept state, made when there is none or when the file is not readable as one."""
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        kept = DevState(**json.loads(path.read_text()))
        _ = kept.token
        return kept
    pair = generate_keypair()
    state = DevState(
        runtime_key=mint_runtime_key(PROJECT).reveal(),
        join_secret=secrets.token_hex(32),
        license_private_pem=pair.private_pem,
        license_public=pair.public,
    )
    _keep(state, path)
    return state


def with_new_key(state: DevState, path: Path) -> DevState:
    """The state with another runtime key, kept; the rest stays."""
    renewed = replace(state, runtime_key=mint_runtime_key(PROJECT).reveal())
    _keep(renewed, path)
    return renewed


def _keep(state: DevState, path: Path) -> None:
    write_private(path, json.dumps(asdict(state), indent=1))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        draft.unlink()
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)
