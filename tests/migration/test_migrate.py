"""Migrations against real databases of both bundled versions."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from memlane.domain.errors import Misconfigured, StorageUnavailable
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.migrate import ADVISORY_LOCK, MigrationRefused, applied_migrations, migrate, migrations
from migration.shapes import shape_of
from support.postgres import fresh_database


async def _execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _applied(dsn: str) -> dict[int, str]:
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        return await applied_migrations(connection)
    finally:
        await connection.close()


@pytest_asyncio.fixture(loop_scope="session")
async def role(database: str) -> AsyncIterator[str]:
    """The connection string of a role without any right but to connect."""
    name = f"plain_{database.partition('@/')[2].partition('?')[0]}"
    await _execute(database, f"create role {name} login")
    yield database.replace("memlane@/", f"{name}@/")
    await _execute(database, f"reassign owned by {name} to memlane", f"drop owned by {name}", f"drop role {name}")


async def test_a_fresh_database_gets_every_migration_in_order(database: str) -> None:
    steps: list[int] = []
    done = await migrate(database, on_step=lambda step: steps.append(step.number))
    assert [one.number for one in done] == steps == [one.number for one in migrations()]
    assert await _applied(database) == {one.number: one.checksum for one in migrations()}


async def test_migrating_again_does_nothing(database: str) -> None:
    await migrate(database)
    before = await shape_of(database)
    assert await migrate(database) == []
    assert await shape_of(database) == before


async def test_a_schema_made_step_by_step_equals_one_made_at_once(postgres: EmbeddedPostgres, database: str) -> None:
    await migrate(database)
    stepwise = await fresh_database(postgres)
    for one in migrations():
        assert [step.number for step in await migrate(stepwise, up_to=one.number)] == [one.number]
    assert await shape_of(stepwise) == await shape_of(database)


async def test_the_files_are_plain_sql_that_pastes_into_psql_in_order(
    postgres: EmbeddedPostgres, database: str
) -> None:
    await migrate(database)
    pasted = await fresh_database(postgres)
    await _execute(pasted, "create extension vector", *(one.sql for one in migrations()))
    theirs, ours = await shape_of(pasted), await shape_of(database)
    for kind in ours:
        assert [line for line in ours[kind] if "schema_migrations" not in line] == theirs[kind]


async def test_every_table_of_a_tenant_is_keyed_by_its_project_first(database: str) -> None:
    await migrate(database)
    connection = await asyncpg.connect(database, timeout=5)
    try:
        rows = await connection.fetch(
            "select c.relname, a.attname from pg_index i join pg_class c on c.oid = i.indrelid"
            " join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]"
            " where i.indisprimary and c.relnamespace = 'public'::regnamespace"
            " and exists (select 1 from pg_attribute p where p.attrelid = c.oid and p.attname = 'project_id')"
        )
    finally:
        await connection.close()
    assert len(rows) >= 8
    assert {row["attname"] for row in rows} == {"project_id"}, dict(rows)


async def test_runs_at_the_same_moment_wait_for_each_other_and_one_applies(database: str) -> None:
    done = await asyncio.gather(*(migrate(database) for _ in range(4)))
    assert sorted(len(one) for one in done) == [0, 0, 0, len(migrations())]


async def test_two_commands_at_the_same_moment_both_succeed(database: str) -> None:
    async def command() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "memlane", "migrate",
            env={"DATABASE_URL": database},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        return process.returncode, out.decode()

    ran = await asyncio.gather(command(), command())
    assert [code for code, _ in ran] == [0, 0]
    said = sorted(text.splitlines()[-1] for _, text in ran)
    assert said == [f"Applied {len(migrations())} migration(s).", "The database is up to date."]


async def test_a_run_waits_for_the_lock_of_another(database: str) -> None:
    holder = await asyncpg.connect(database, timeout=5)
    await holder.execute("select pg_advisory_lock($1)", ADVISORY_LOCK)
    waiting = asyncio.ensure_future(migrate(database))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await holder.close()
    assert len(await waiting) == len(migrations())


async def test_a_migration_that_fails_leaves_nothing_of_itself_behind(database: str) -> None:
    # A table of the same name is in the way of the first migration.
    await _execute(database, "create table memories (id int)")
    with pytest.raises(MigrationRefused, match=migrations()[0].name):
        await migrate(database)
    assert await _applied(database) == {}
    await _execute(database, "drop table memories")
    assert len(await migrate(database)) == len(migrations())


async def test_a_gap_in_the_record_is_refused(database: str) -> None:
    await migrate(database)
    await _execute(database, "delete from schema_migrations where number = 1")
    with pytest.raises(MigrationRefused, match="0001 is not recorded"):
        await migrate(database)


async def test_a_file_that_was_changed_after_it_ran_is_refused_by_its_name(database: str) -> None:
    await migrate(database)
    await _execute(database, "update schema_migrations set checksum = 'other' where number = 1")
    with pytest.raises(MigrationRefused, match=r"0001_house\.sql was changed after it ran"):
        await migrate(database)


async def test_a_database_that_is_newer_than_the_program_is_refused(database: str) -> None:
    await migrate(database)
    await _execute(database, "insert into schema_migrations values (9999, '9999_later.sql', 'x')")
    with pytest.raises(MigrationRefused, match=r"9999.*newer version.*downgrade"):
        await migrate(database)


async def test_a_role_that_may_not_create_the_extension_is_told_what_to_do(role: str) -> None:
    with pytest.raises(MigrationRefused, match="CREATE EXTENSION vector"):
        await migrate(role)


async def test_a_role_that_may_not_create_tables_is_told_what_to_do(database: str, role: str) -> None:
    await _execute(database, "create extension vector", "revoke create on schema public from public")
    with pytest.raises(MigrationRefused, match=r"(?i)grant"):
        await migrate(role)


async def test_a_role_that_owns_its_database_needs_no_superuser(database: str, role: str) -> None:
    name, owner = database.partition("@/")[2].partition("?")[0], role.partition("://")[2].partition("@")[0]
    await _execute(database, "create extension vector", f'alter database "{name}" owner to {owner}')
    await _execute(database, f"alter schema public owner to {owner}")
    assert len(await migrate(role)) == len(migrations())


async def test_a_server_without_pgvector_says_how_to_install_it(postgres: EmbeddedPostgres, database: str) -> None:
    if postgres.version < 18:
        return  # before 18 the folder of extensions is fixed; the rules' own tests go through what it would say
    name = database.partition("@/")[2].partition("?")[0]
    await _execute(database, f"alter database \"{name}\" set extension_control_path = '/nonexistent'")
    with pytest.raises(MigrationRefused, match="pgvector is not installed on the database server"):
        await migrate(database)


async def test_a_database_that_does_not_answer_is_no_refusal() -> None:
    with pytest.raises(StorageUnavailable):
        await migrate("postgresql://nobody@127.0.0.1:9/none")


@pytest.mark.parametrize("dsn", ["mysql://u:hunter2@h/d", "hunter2", "postgresql://u:hunter2@h:port/d"])
async def test_what_is_no_connection_string_is_told_without_quoting_it(dsn: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        await migrate(dsn)
    assert "hunter2" not in raised.value.message


async def test_a_connection_that_breaks_in_the_middle_says_to_run_it_again(database: str) -> None:
    holder = await asyncpg.connect(database, timeout=5)
    await holder.execute("select pg_advisory_lock($1)", ADVISORY_LOCK)
    waiting = asyncio.ensure_future(migrate(database))
    await asyncio.sleep(0.2)
    await holder.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    with pytest.raises(StorageUnavailable, match="run `memlane migrate` again"):
        await waiting
    await holder.close()
    assert len(await migrate(database)) == len(migrations())


async def test_a_database_that_does_not_exist_is_told_without_its_address(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(StorageUnavailable) as raised:
        await migrate(postgres.dsn("no_such_database"))
    assert str(postgres.data_dir) not in raised.value.message


def test_every_migration_explains_itself_in_its_first_line() -> None:
    assert all(one.sql.startswith("-- ") for one in migrations())
    assert Path(migrations()[0].name).suffix == ".sql"
