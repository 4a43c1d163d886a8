"""The named statements against a real, migrated schema."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from memlane.storage.migrate import migrate
from memlane.storage.statements import statement, statements


@pytest_asyncio.fixture(loop_scope="session")
async def connection(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    await migrate(database)
    opened = await asyncpg.connect(database, timeout=5)
    yield opened
    await opened.close()


async def test_every_statement_fits_the_schema(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    for name, sql in statements().items():
        try:
            await connection.prepare(sql)
        except asyncpg.PostgresError as fault:
            pytest.fail(f"{name}: {fault}")


async def test_the_look_ups_of_every_request_use_an_index(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.execute("set enable_seqscan = off")
    for name, values in (
        ("find_key", "'short'"),
        ("lock_channel", "gen_random_uuid(), 'user', 'u1'"),
        ("find_answer", "gen_random_uuid(), 'u1', 'key'"),
        ("find_twin", "gen_random_uuid(), gen_random_uuid(), 'topical', '\\x00', null"),
    ):
        await connection.execute(f"prepare {name}_plan as {statement(name)}")
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain execute {name}_plan({values})"))
        assert "Index" in plan, plan
        assert "Seq Scan" not in plan, plan
