"""The pool: its bounds, what it makes of real faults of a real server, and what it runs again."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Self

import asyncpg
import pytest
import pytest_asyncio

from memlane.domain.errors import MemoryNotFound, Misconfigured, StorageRejected, StorageUnavailable
from memlane.observability import metrics
from memlane.storage.pool import (
    ACQUIRE_SECONDS,
    CONNECT_SECONDS,
    LOCK_SECONDS,
    STATEMENT_SECONDS,
    TRIES,
    Pool,
    PoolLimits,
)

DIE = "select pg_terminate_backend(pg_backend_pid())"


@pytest_asyncio.fixture(loop_scope="session")
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = Pool(database, PoolLimits(max_size=4))
    await opened.write(lambda c: c.execute("create table notes (n int primary key, text text not null default '')"))
    yield opened
    await opened.aclose()


async def notes(pool: Pool) -> list[int]:
    return [row["n"] for row in await pool.read(lambda c: c.fetch("select n from notes order by n"))]


def counted(counter: Any, kind: str) -> float:
    value: float = counter.labels(kind)._value.get()
    return value


class Elapsed:
    """Seconds that a block took."""

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began


class TestBounds:
    async def test_a_caller_waits_for_a_free_connection_no_longer_than_the_bound(self, database: str) -> None:
        small = Pool(database, PoolLimits(max_size=1))
        async with small.connection():
            with Elapsed() as waited, pytest.raises(StorageUnavailable):
                await small.write(lambda c: c.execute("select 1"))
        assert ACQUIRE_SECONDS <= waited.seconds < ACQUIRE_SECONDS + CONNECT_SECONDS
        assert await small.read(lambda c: c.fetchval("select 1")) == 1, "the connection was given back"
        await small.aclose()

    async def test_a_statement_runs_no_longer_than_the_bound_and_is_not_run_again(self, pool: Pool) -> None:
        with Elapsed() as ran, pytest.raises(StorageUnavailable):
            await pool.read(lambda c: c.execute("select pg_sleep(20)"))
        assert STATEMENT_SECONDS <= ran.seconds < STATEMENT_SECONDS + 1

    async def test_a_lock_is_waited_for_no_longer_than_the_bound_and_once(self, pool: Pool, database: str) -> None:
        await pool.write(lambda c: c.execute("insert into notes values (1)"))
        holder = await asyncpg.connect(database, timeout=5)
        try:
            async with holder.transaction():
                await holder.execute("select 1 from notes for update")
                with Elapsed() as waited, pytest.raises(StorageUnavailable):
                    await pool.write(lambda c: c.execute("select 1 from notes for update"))
        finally:
            await holder.close()
        assert LOCK_SECONDS <= waited.seconds < LOCK_SECONDS + 1

    async def test_every_connection_has_its_limits_also_after_it_was_lent_before(self, pool: Pool) -> None:
        for _ in range(3):
            settings = await pool.read(
                lambda c: c.fetchrow(
                    "select current_setting('statement_timeout') s, current_setting('lock_timeout') l,"
                    " current_setting('idle_in_transaction_session_timeout') i, current_setting('timezone') t"
                )
            )
            assert settings is not None
            assert tuple(settings) == ("2s", "1500ms", "10s", "UTC")

    async def test_behind_a_pooler_no_session_is_set_up_and_nothing_is_prepared_by_name(self, database: str) -> None:
        plain = Pool(database, PoolLimits(max_size=1, behind_pooler=True))
        assert await plain.read(lambda c: c.fetchval("show statement_timeout")) == "0"
        for number in range(3):
            assert await plain.read(lambda c, n=number: c.fetchval("select $1::int", n)) == number
        assert await plain.read(lambda c: c.fetchval("select count(*) from pg_prepared_statements")) <= 1
        await plain.aclose()

    async def test_a_caller_who_gives_up_gets_away_at_once_and_leaves_a_working_pool(self, database: str) -> None:
        small = Pool(database, PoolLimits(max_size=1))
        asked = asyncio.ensure_future(small.write(lambda c: c.execute("select pg_sleep(20)")))
        await asyncio.sleep(0.3)
        asked.cancel()
        with Elapsed() as left, pytest.raises(asyncio.CancelledError):
            await asked
        assert left.seconds < 0.2
        assert await small.read(lambda c: c.fetchval("select 1")) == 1
        await small.aclose()

    async def test_closing_waits_for_no_connection_for_ever(self, database: str) -> None:
        busy = Pool(database, PoolLimits(max_size=1))
        asked = asyncio.ensure_future(busy.read(lambda c: c.execute("select pg_sleep(20)")))
        await asyncio.sleep(0.3)
        with Elapsed() as closed:
            await busy.aclose()
        assert closed.seconds < 2.5
        with pytest.raises(StorageUnavailable):
            await asked


class TestTranslation:
    async def test_a_fault_that_time_may_mend_is_one_error_that_quotes_nothing(self, pool: Pool) -> None:
        sql = "do $$ begin raise exception 'of the row 4711' using errcode = '53100'; end $$"
        with pytest.raises(StorageUnavailable) as raised:
            await pool.read(lambda c: c.execute(sql))
        assert isinstance(raised.value.__cause__, asyncpg.PostgresError)
        assert "4711" not in raised.value.message
        assert sql not in raised.value.message

    @pytest.mark.parametrize(
        ("sql", "values"),
        [
            ("selec 1", ()),
            ("select 1/0", ()),
            ("insert into notes values (null)", ()),
            ("select 'x'::int", ()),
            # The driver itself cannot send these, or counts them wrongly.
            ("select $1::text", ("a\udcff",)),
            ("select $1::timestamptz", (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),)),
            ("select $1::int", (1, 2)),
            ("select $1::text", ("a\0b",)),
        ],
        ids=["syntax", "division", "null", "cast", "surrogate", "before-year-1", "too-many", "nul"],
    )
    async def test_what_the_database_never_takes_is_no_outage_and_is_not_tried_again(
        self, pool: Pool, sql: str, values: tuple[Any, ...]
    ) -> None:
        for run in (pool.read, pool.write):
            tries = 0

            async def act(connection: Any) -> None:
                nonlocal tries
                tries += 1
                await connection.fetchval(sql, *values)

            with pytest.raises(StorageRejected) as raised:
                await run(act)
            assert (tries, raised.value.retryable) == (1, False)
            assert sql not in raised.value.message

    @pytest.mark.parametrize(
        "dsn",
        [
            "postgresql://u:hunter2@127.0.0.1:9/d?target_session_attrs=bogus",
            "postgresql://u:hunter2@127.0.0.1:9/d?sslmode=bogus",
            "postgresql://u:hunter2@/d?host=127.0.0.1&port=nine",
        ],
    )
    async def test_a_connection_string_that_is_none_is_a_wrong_setting_and_is_not_quoted(self, dsn: str) -> None:
        nobody = Pool(dsn)
        with pytest.raises(Misconfigured, match="DATABASE_URL") as raised:
            await nobody.read(lambda c: c.execute("select 1"))
        assert "hunter2" not in raised.value.message
        await nobody.aclose()

    async def test_a_missing_table_says_to_migrate(self, pool: Pool) -> None:
        with pytest.raises(StorageUnavailable, match="memlane migrate"):
            await pool.read(lambda c: c.execute("select 1 from nowhere"))

    async def test_a_server_that_is_not_there_is_the_same_error(self) -> None:
        nobody = Pool("postgresql://nobody@127.0.0.1:9/none")
        with pytest.raises(StorageUnavailable):
            await nobody.read(lambda c: c.execute("select 1"))
        await nobody.aclose()

    async def test_a_fault_with_a_file_of_the_callers_is_no_fault_of_the_database(
        self, pool: Pool, tmp_path: Path
    ) -> None:
        async def act(_connection: Any) -> None:
            (tmp_path / "nope" / "x").write_text("")

        with pytest.raises(FileNotFoundError):
            await pool.write(act)

    async def test_an_error_of_the_domain_passes_unchanged_and_rolls_back(self, pool: Pool) -> None:
        async def act(connection: Any) -> None:
            await connection.execute("insert into notes values (1)")
            raise MemoryNotFound

        with pytest.raises(MemoryNotFound):
            await pool.write(act)
        assert await notes(pool) == []


class TestLostRaces:
    async def test_a_real_deadlock_is_run_again_and_both_writers_finish(self, pool: Pool) -> None:
        await pool.write(lambda c: c.execute("insert into notes values (1), (2)"))
        before = counted(metrics.STORAGE_RETRIES, "DeadlockDetectedError")
        # Each has its first row before either asks for its second.
        met = asyncio.Barrier(2)
        tries = {1: 0, 2: 0}

        async def writer(first: int, second: int) -> None:
            async def act(connection: Any) -> None:
                tries[first] += 1
                # The server looks for a circle after 1 s by default, shortly before the lock's own limit.
                await connection.execute("set local deadlock_timeout = '100ms'")
                await connection.execute("update notes set text = text || $2 where n = $1", first, str(first))
                if tries[first] == 1:
                    await met.wait()
                await connection.execute("update notes set text = text || $2 where n = $1", second, str(first))

            await pool.write(act)

        await asyncio.gather(writer(1, 2), writer(2, 1))
        assert sum(tries.values()) == 3
        assert counted(metrics.STORAGE_RETRIES, "DeadlockDetectedError") == before + 1
        rows = await pool.read(lambda c: c.fetch("select text from notes"))
        assert [sorted(row["text"]) for row in rows] == [["1", "2"], ["1", "2"]]

    async def test_a_real_serialization_fault_is_run_again_on_a_fresh_snapshot(self, pool: Pool, database: str) -> None:
        await pool.write(lambda c: c.execute("insert into notes values (1, '0')"))
        other = await asyncpg.connect(database, timeout=5)
        tries = 0

        async def increment(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute("set transaction isolation level repeatable read")
            seen = int(await connection.fetchval("select text from notes where n = 1"))
            if tries == 1:
                await other.execute("update notes set text = '10' where n = 1")
            await connection.execute("update notes set text = $1 where n = 1", str(seen + 1))

        try:
            await pool.write(increment)
        finally:
            await other.close()
        assert tries == 2
        assert await pool.read(lambda c: c.fetchval("select text from notes")) == "11"

    async def test_a_twin_that_came_first_is_a_lost_race_too(self, pool: Pool) -> None:
        tries = 0

        async def act(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute("insert into notes values ($1)", 1 if tries == 1 else 2)

        await pool.write(lambda c: c.execute("insert into notes values (1)"))
        await pool.write(act)
        assert await notes(pool) == [1, 2]

    async def test_a_race_that_is_lost_every_time_ends_after_the_last_try(self, pool: Pool) -> None:
        tries = 0

        async def act(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute("insert into notes values (1)")

        await pool.write(act)
        tries = 0
        with pytest.raises(StorageUnavailable):
            await pool.write(act)
        assert tries == TRIES


class TestLostConnections:
    async def test_a_read_whose_connection_dies_is_run_once_more(self, pool: Pool) -> None:
        tries = 0

        async def act(connection: Any) -> Any:
            nonlocal tries
            tries += 1
            return await connection.fetchval(DIE if tries == 1 else "select 7")

        assert await pool.read(act) == 7
        assert tries == 2

    async def test_a_read_whose_connections_keep_dying_fails_after_the_second(self, pool: Pool) -> None:
        tries = 0

        async def act(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute(DIE)

        with pytest.raises(StorageUnavailable):
            await pool.read(act)
        assert tries == 2

    async def test_a_write_whose_connection_dies_before_the_commit_is_run_once_more(self, pool: Pool) -> None:
        tries = 0

        async def act(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute("insert into notes values ($1)", tries)
            if tries == 1:
                await connection.execute(DIE)

        await pool.write(act)
        assert await notes(pool) == [2]
        tries = 0

        async def always(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute(DIE)

        with pytest.raises(StorageUnavailable):
            await pool.write(always)
        assert tries == 2

    async def test_a_write_whose_connection_dies_during_the_commit_is_never_run_again(self, pool: Pool) -> None:
        # The trigger runs inside COMMIT: whether it counted is unknown to the client.
        await pool.write(
            lambda c: c.execute(
                "create function die() returns trigger language plpgsql as"
                " $$ begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1); return null; end $$;"
                " create constraint trigger die after insert on notes deferrable initially deferred"
                " for each row execute function die()"
            )
        )
        tries = 0

        async def act(connection: Any) -> None:
            nonlocal tries
            tries += 1
            await connection.execute("insert into notes values (1)")

        with pytest.raises(StorageUnavailable):
            await pool.write(act)
        assert tries == 1

    async def test_the_pool_heals_when_all_of_its_connections_were_cut(self, pool: Pool, database: str) -> None:
        await asyncio.gather(*(pool.read(lambda c: c.execute("select pg_sleep(0.05)")) for _ in range(4)))
        other = await asyncpg.connect(database, timeout=5)
        try:
            await other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        finally:
            await other.close()
        answers = await asyncio.gather(*(pool.read(lambda c: c.fetchval("select 1")) for _ in range(4)))
        assert answers == [1] * 4
