import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlane.embedded.binaries import PostgresVersion
from support.postgres import VERSIONS, memory_folder, postgres

__all__ = ["postgres"]


def lend(parent: str | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mlt-", dir=parent))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place() -> Iterator[Path]:
    """A short, empty folder that any user can enter; pytest's own lies too deep for a socket."""
    yield from lend(memory_folder())


@pytest.fixture
def program_place() -> Iterator[Path]:
    """Such a folder for programs, which a folder in memory may refuse to run."""
    yield from lend(None)


@pytest.fixture(params=VERSIONS, ids=lambda v: f"pg{v}")
def version(request: pytest.FixtureRequest) -> PostgresVersion:
    chosen: PostgresVersion = request.param
    return chosen


@pytest.fixture
def root_only() -> None:
    if os.geteuid():
        pytest.skip("only root has to lend an identity")
