"""What is written off the request path: recall marks and sweeps."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest_asyncio
import uuid_utils

from memlane.storage.migrate import migrate
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.recall_marks import BATCH_MAX, BatchedRecallMarks
from memlane.storage.sweeps import drop_old_answers, drop_old_sessions
from support.postgres import private_server

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PROJECT = str(uuid_utils.uuid7())


@pytest_asyncio.fixture(loop_scope="session")
async def pool(database: str) -> AsyncIterator[Pool]:
    await migrate(database)
    opened = Pool(database, PoolLimits(max_size=4))
    yield opened
    await opened.aclose()


def ids(count: int) -> list[str]:
    return [str(uuid_utils.uuid7()) for _ in range(count)]


async def recalls(pool: Pool) -> dict[str, tuple[datetime, int]]:
    rows = await pool.read(lambda c: c.fetch("select memory_id, recalled_at, recall_count from memory_recalls"))
    return {str(row["memory_id"]): (row["recalled_at"], row["recall_count"]) for row in rows}


class TestRecallMarks:
    async def test_marks_are_counted_and_keep_the_latest_time(self, pool: Pool) -> None:
        marks, (one, other) = BatchedRecallMarks(pool), ids(2)
        marks.mark(PROJECT, [one, other], NOW)
        marks.mark(PROJECT, [one], NOW + timedelta(seconds=5))
        marks.mark(PROJECT, [one], NOW - timedelta(seconds=5))
        await marks.flush()
        marks.mark(PROJECT, [other], NOW - timedelta(days=1))
        await marks.flush()
        assert await recalls(pool) == {one: (NOW + timedelta(seconds=5), 3), other: (NOW, 2)}

    async def test_more_marks_than_one_batch_are_all_written(self, pool: Pool) -> None:
        marks, many = BatchedRecallMarks(pool), ids(BATCH_MAX * 2 + 7)
        marks.mark(PROJECT, many, NOW)
        await marks.flush()
        assert (await recalls(pool)).keys() == set(many)

    async def test_two_writers_of_the_same_marks_never_wait_in_a_circle(self, pool: Pool) -> None:
        many = ids(300)
        first, second = BatchedRecallMarks(pool), BatchedRecallMarks(pool)
        for _ in range(5):
            first.mark(PROJECT, many, NOW)
            second.mark(PROJECT, many[::-1], NOW)
            await asyncio.gather(first.flush(), second.flush())
        assert {count for _, count in (await recalls(pool)).values()} == {10}

    async def test_the_task_writes_marks_within_about_a_second(self, pool: Pool) -> None:
        marks, (one,) = BatchedRecallMarks(pool), ids(1)
        task = asyncio.ensure_future(marks.run())
        try:
            marks.mark(PROJECT, [one], NOW)
            async with asyncio.timeout(5):
                while one not in await recalls(pool):  # noqa: ASYNC110 - another connection's write is no event
                    await asyncio.sleep(0.05)
        finally:
            task.cancel()

    async def test_marks_made_while_the_database_is_down_are_written_when_it_is_back(self) -> None:
        async with private_server() as server:
            await migrate(server.dsn())
            pool = Pool(server.dsn(), PoolLimits(max_size=2))
            marks, (one, other) = BatchedRecallMarks(pool), ids(2)
            await server.stop()
            marks.mark(PROJECT, [one], NOW)
            await marks.flush()
            marks.mark(PROJECT, [one, other], NOW + timedelta(seconds=1))
            await marks.flush()
            await server.start()
            await marks.flush()
            assert await recalls(pool) == {
                one: (NOW + timedelta(seconds=1), 2),
                other: (NOW + timedelta(seconds=1), 1),
            }
            await pool.aclose()


class TestSweeps:
    async def test_only_answers_older_than_25_hours_are_dropped_also_past_one_batch(self, pool: Pool) -> None:
        await pool.write(
            lambda c: c.execute(
                "insert into idempotency_keys (project_id, user_id, key, request_sha256, memory_id, answer, created_at)"
                " select $1, 'u', age || '-' || n, '', $1, '{}', now() - make_interval(hours => age)"
                " from unnest(array[0, 24, 26, 100]) age, generate_series(1, 600) n",
                UUID(PROJECT),
            )
        )
        await _swept(drop_old_answers(pool), pool, "idempotency_keys", 1200)
        left = await pool.read(lambda c: c.fetch("select distinct split_part(key, '-', 1) age from idempotency_keys"))
        assert {row["age"] for row in left} == {"0", "24"}

    async def test_only_sessions_that_ended_a_day_ago_are_dropped(self, pool: Pool) -> None:
        await pool.write(
            lambda c: c.execute(
                "insert into stream_sessions (project_id, session_id, first_used_at)"
                " select $1, 's' || age, now() - make_interval(hours => age) from unnest(array[1, 47, 49]) age",
                UUID(PROJECT),
            )
        )
        await _swept(drop_old_sessions(pool, 24), pool, "stream_sessions", 2)
        left = await pool.read(lambda c: c.fetch("select session_id from stream_sessions order by 1"))
        assert [row["session_id"] for row in left] == ["s1", "s47"]

    async def test_a_sweep_outlives_an_outage_of_the_database(self) -> None:
        nobody = Pool("postgresql://nobody@127.0.0.1:9/none")
        task = asyncio.ensure_future(drop_old_answers(nobody))
        await asyncio.sleep(0.3)
        assert not task.done()
        task.cancel()
        await nobody.aclose()


async def _swept(sweep: Coroutine[Any, Any, None], pool: Pool, table: str, left: int) -> None:
    task = asyncio.ensure_future(sweep)
    try:
        async with asyncio.timeout(10):
            counted = f"select count(*) from {table}"  # noqa: S608 - a table of ours
            while await pool.read(lambda c: c.fetchval(counted)) != left:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
    finally:
        task.cancel()
