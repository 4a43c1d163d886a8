"""Which migrations are still to run: a pure decision over what is recorded and what is known."""

from typing import Any, cast

import asyncpg
import pytest

from memlane.storage import migrate as module
from memlane.storage.migrate import Migration, MigrationRefused, pending

KNOWN = [Migration(number, f"{number:04d}_step.sql", f"select {number};") for number in (1, 2, 3)]
SUMS = {one.number: one.checksum for one in KNOWN}


def test_a_fresh_database_needs_all_of_them() -> None:
    assert pending({}, KNOWN) == KNOWN


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_what_is_recorded_is_not_run_again(count: int) -> None:
    applied = {number: SUMS[number] for number in range(1, count + 1)}
    assert pending(applied, KNOWN) == KNOWN[count:]


def test_a_gap_is_refused_by_its_number() -> None:
    with pytest.raises(MigrationRefused, match="0002 is not recorded"):
        pending({1: SUMS[1], 3: SUMS[3]}, KNOWN)


def test_a_changed_file_is_refused_by_its_name() -> None:
    with pytest.raises(MigrationRefused, match=r"0002_step\.sql was changed after it ran"):
        pending({1: SUMS[1], 2: "other"}, KNOWN)


def test_a_newer_database_is_refused_and_says_what_to_install() -> None:
    with pytest.raises(MigrationRefused, match=r"0004.*install the newer version"):
        pending(SUMS | {4: "later"}, KNOWN)


def test_one_changed_letter_changes_the_checksum() -> None:
    assert Migration(1, "0001_a.sql", "select 1").checksum != Migration(1, "0001_a.sql", "select 2").checksum


class _Server:
    """What the driver says of a server that is too old, or that lacks the extension."""

    def __init__(
        self, version: int, fault: type[asyncpg.PostgresError] | None = None, vector: str | None = None
    ) -> None:
        self._version = version
        self._fault = fault
        self._vector = vector

    async def fetchval(self, sql: str) -> object:
        return self._version if "server_version_num" in sql else self._vector

    async def execute(self, _sql: str) -> None:
        if self._fault is not None:
            raise self._fault("as the server says it")


async def test_postgres_13_is_too_old() -> None:
    with pytest.raises(MigrationRefused, match="Postgres 14 or later is needed; this server is 13"):
        await module._check_server(cast("Any", _Server(130014)))
    await module._check_server(cast("Any", _Server(140000)))


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (asyncpg.exceptions.UndefinedFileError, "apt-get install"),
        (asyncpg.exceptions.FeatureNotSupportedError, "apt-get install"),
        (asyncpg.exceptions.InsufficientPrivilegeError, "CREATE EXTENSION vector"),
    ],
)
async def test_an_extension_that_cannot_be_created_says_what_to_do(
    fault: type[asyncpg.PostgresError], advice: str
) -> None:
    with pytest.raises(MigrationRefused, match=advice):
        await module._ensure_pgvector(cast("Any", _Server(160000, fault)))


@pytest.mark.parametrize("version", ["0.4.4", "0.5.1", "0.6.2"])
async def test_a_pgvector_without_halfvec_is_too_old_and_says_how_to_update(version: str) -> None:
    with pytest.raises(MigrationRefused, match="ALTER EXTENSION vector UPDATE"):
        await module._ensure_pgvector(cast("Any", _Server(160000, vector=version)))


@pytest.mark.parametrize("version", ["0.7.0", "0.8.1", "1.0", "0.10.0"])
async def test_a_pgvector_with_halfvec_is_fine(version: str) -> None:
    await module._ensure_pgvector(cast("Any", _Server(160000, vector=version)))
