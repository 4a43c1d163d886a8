"""`memlane purge`: what is erased stands nowhere any more, and nothing else is touched."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest_asyncio
from redis.asyncio import Redis

from integration.cli.shell import Ran, borrowed, memlane, started
from integration.rest.house import error_of
from memlane.usecases.ports import Embedder
from support.redis import RedisServer, redis_server
from support.service import Deployment, Service, headers_of, running_service
from support.stream_client import opened

NEEDLE = "Xanthippe"
"""A word of everything that is to be erased, and of nothing else."""
_BULK = """
insert into memories (project_id, id, channel_id, scope, kind, content, created_at, updated_at, retired_at, seq,
                      absorb_key, canonical_version, terms, terms_version, space_id, embedding)
select c.project_id, gen_random_uuid(), c.id, c.scope, 'topical', 'Xanthippe said ' || n, now(), now(),
       case when n % 10 = 0 then now() end, c.seq + n, sha256(n::text::bytea), 1, array['xanthipp', 'said'], 1,
       (select min(id) from embedding_spaces), array_fill(0.05::real, array[384])::halfvec
  from channels c, generate_series(1, $2::int) n where c.user_id = $1
"""


@pytest_asyncio.fixture(loop_scope="session")
async def redis() -> AsyncIterator[RedisServer]:
    async with redis_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def service(lone_deployment: Deployment, embedder: Embedder, redis: RedisServer) -> AsyncIterator[Service]:
    # With a rate, slow enough that Redis holds keys of these very users for some seconds.
    settings = lone_deployment.settings(redis_url=redis.url, rate_per_user=3.0)
    async with running_service(lone_deployment, settings, embedder=borrowed(embedder)) as (running, _):
        yield running


async def purge(deployment: Deployment, *arguments: str) -> Ran:
    return await memlane("purge", *arguments, "--yes", env={"DATABASE_URL": deployment.dsn})


async def receipt_of(deployment: Deployment, *arguments: str) -> Any:
    ran = await purge(deployment, *arguments)
    assert ran.code == 0, ran.said
    return json.loads(ran.out)


async def tables(deployment: Deployment) -> list[str]:
    rows = await deployment.fetch(
        "select c.relname from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
    )
    return [row["relname"] for row in rows]


async def places_of(deployment: Deployment, redis: RedisServer, needle: str) -> list[str]:
    """Where a text stands: in any column of any table, in the statistics, in Redis."""
    # Terms are stems: what a word and its stem share is searched for.
    stem = f"%{needle[:-1]}%"
    found = []
    for name in await tables(deployment):
        count = await deployment.fetch(f'select count(*) from "{name}" t where t::text ilike $1', stem)  # noqa: S608
        found += [name] * bool(count[0][0])
    stats = (
        "select distinct tablename from pg_stats where most_common_vals::text ilike $1"
        " or histogram_bounds::text ilike $1 or most_common_elems::text ilike $1"
    )
    found += [f"samples of {row['tablename']}" for row in await deployment.fetch(stats, stem)]
    for key, value in (await keys_of(redis)).items():
        if stem.strip("%").lower() in f"{key} {value}".lower():
            found.append(f"redis {key}")
    return found


async def keys_of(redis: RedisServer) -> dict[str, str]:
    """Every key of Redis, and its value as it is stored."""
    client = Redis.from_url(redis.url)
    try:
        return {str(key): str(await client.dump(key)) async for key in client.scan_iter()}
    finally:
        await client.aclose()


async def all_of(deployment: Deployment, user: str) -> dict[str, list[str]]:
    """Every row that belongs to a user, byte for byte."""
    (channel,) = await deployment.fetch("select id, project_id from channels where user_id = $1", user)
    queries = {
        "channels": "select t::text from channels t where id = $1",
        "memories": "select t::text || xmin from memories t where channel_id = $1 order by id",
        "memory_revisions": "select t::text || t.xmin from memory_revisions t join memories m on m.id = t.memory_id"
        " where m.channel_id = $1 order by 1",
        "memory_recalls": "select t::text || t.xmin from memory_recalls t join memories m on m.id = t.memory_id"
        " where m.channel_id = $1 order by 1",
        "write_ledger": "select t::text || xmin from write_ledger t where channel_id = $1 order by id",
    }
    rows = {name: [row[0] for row in await deployment.fetch(sql, channel["id"])] for name, sql in queries.items()}
    answers = "select t::text || xmin from idempotency_keys t where user_id = $1 order by key"
    return rows | {"idempotency_keys": [row[0] for row in await deployment.fetch(answers, user)]}


async def live_through(service: Service, me: dict[str, Any], name: str) -> list[str]:
    """A user with live, retired, absorbed and superseded memories, kept answers and recalls; the ids."""
    keyed = {**me, "Idempotency-Key": "k1"}
    first = await service.save(keyed, f"{name} likes tea.", sourceThreadIds=[f"thread-{name}"])
    await service.save(me, f"{name} likes tea")
    second = await service.save(me, f"{name} works in the warehouse.")
    await service.client.delete(f"/api/memories/{second['id']}", headers=me)
    third = await service.save(me, f"{name} prefers short answers.", kind="operational")
    body = {"content": f"{name} prefers long answers.", "kind": "operational"}
    newer = await service.client.patch(f"/api/memories/{third['id']}", headers=me, json=body)
    await service.recall(me, f"what does {name} like")
    return [first["id"], second["id"], third["id"], newer.json()["id"]]


async def recalls_are_written(deployment: Deployment, count: int) -> None:
    async with asyncio.timeout(10):
        while (await deployment.fetch("select count(*) from memory_recalls"))[0][0] < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_purged_user_stands_nowhere_and_another_one_is_as_before_byte_for_byte(
    lone_deployment: Deployment, service: Service, redis: RedisServer
) -> None:
    key = await lone_deployment.key()
    ada, bob = headers_of(key, "ada"), headers_of(key, "bob")
    ids = await live_through(service, ada, NEEDLE)
    await live_through(service, bob, "Bob")
    await recalls_are_written(lone_deployment, 4)
    await lone_deployment.execute("analyze")
    assert {"memories", "memory_revisions", "idempotency_keys"} <= set(
        await places_of(lone_deployment, redis, NEEDLE)
    ), "the search finds what there is"
    assert await keys_of(redis), "Redis is searched for something"
    before = await all_of(lone_deployment, "bob")
    assert all(before.values())

    dry = await receipt_of(lone_deployment, "user", "ada", "--project", "shop", "--dry-run")
    assert dry["found"] == {
        "memories": 4, "live": 2, "tombstones": 0, "revisions": 1, "recallMarks": 2, "keptAnswers": 1,
    }  # fmt: skip
    assert NEEDLE in str(await service.list(ada)), "a dry run changes nothing"

    ticket = (await service.client.post("/api/memories/subscribe", headers=ada)).json()
    topic = f"user_meta:memories:{ticket['joinCode']}"
    async with opened(service.url, ticket["joinToken"]) as page:
        await page.joined(topic)
        seen = len(page.events(topic))
        receipt = await receipt_of(lone_deployment, "user", "ada", "--project", "shop")
        await page.until(
            lambda: {e["memoryId"] for e in page.events(topic)[seen:] if e["operation"] == "invalidated"} == set(ids),
            "the open page is told to drop every row",
        )
    assert receipt["erased"] == {
        "memories": 4, "live": 2, "revisions": 1, "recallMarks": 2, "keptAnswers": 1,
    }  # fmt: skip
    assert (receipt["tombstones"], receipt["writtenMeanwhile"], receipt["notVacuumed"]) == (4, 0, [])
    assert "memories" in receipt["vacuumed"]
    assert any("WAL" in line for line in receipt["notReached"])
    assert any("backups" in line for line in receipt["notReached"])
    assert receipt["startedAt"] < receipt["endedAt"]

    assert await places_of(lone_deployment, redis, NEEDLE) == []
    assert await all_of(lone_deployment, "bob") == before
    left = "select embedding, wording_salt, absorb_key, terms from memories where purged_at is not null"
    assert [tuple(row.values()) for row in await lone_deployment.fetch(left)] == [(None, None, None, [])] * 4

    # The ledger stays, without wording, and holds; a tombstone is no memory any more.
    told = (await service.client.get(f"/api/memories/{ids[0]}/provenance", headers=ada)).json()["writes"]
    assert [(one["operation"], one["lane"], one["sourceType"]) for one in told][-1] == ("purged", "operator", "cli")
    assert (await memlane("ledger", "verify", env={"DATABASE_URL": lone_deployment.dsn})).code == 0
    assert (await service.list(ada, "?includeInvalidated=true"))["memories"] == []
    for answer in (
        await service.client.get(f"/api/memories/{ids[0]}", headers=ada),
        await service.client.post(f"/api/memories/{ids[0]}/restore", headers=ada),
        await service.client.delete(f"/api/memories/{ids[0]}", headers=ada),
    ):
        assert error_of(answer) == (404, "MEMORY_NOT_FOUND")
    # The same statement may be saved anew: it is a new memory.
    assert (await service.save(ada, f"{NEEDLE} likes tea."))["absorbed"] is False
    again = await receipt_of(lone_deployment, "user", "nobody", "--project", "shop")
    assert again["erased"]["memories"] == 0


async def test_one_memory_or_a_whole_project_is_erased_and_no_import_brings_it_back(
    lone_deployment: Deployment, service: Service, redis: RedisServer, tmp_path: Path
) -> None:
    me = headers_of(await lone_deployment.key(), "ada")
    other = headers_of(await lone_deployment.key("other"), "ada")
    secret = await service.save({**me, "Idempotency-Key": "k"}, f"{NEEDLE} was here.", scope="project")
    kept = await service.save(me, "Likes rye.")
    await service.save(other, "Likes tea.")
    export = tmp_path / "export.jsonl"
    env = lone_deployment.environment()
    assert (await memlane("export", "--project", "shop", "--out", str(export), env=env)).code == 0

    one = await receipt_of(lone_deployment, "memory", secret["id"], "--project", "shop")
    assert (one["erased"]["memories"], one["erased"]["keptAnswers"]) == (1, 1)
    assert await places_of(lone_deployment, redis, NEEDLE) == []
    brought = await memlane("import", "--project", "shop", str(export), env=env)
    assert "0 written, 0 absorbed, 2 already there" in brought.err
    assert await places_of(lone_deployment, redis, NEEDLE) == []
    assert [row["id"] for row in (await service.list(me))["memories"]] == [kept["id"]]

    whole = await receipt_of(lone_deployment, "project", "shop")
    assert (whole["erased"]["memories"], whole["tombstones"]) == (1, 2)
    assert (await service.list(me))["memories"] == []
    assert [row["content"] for row in (await service.list(other))["memories"]] == ["Likes tea."]
    assert (await memlane("ledger", "verify", env=env)).code == 0


async def test_it_asks_first_and_a_wrong_name_erases_nothing(lone_deployment: Deployment, service: Service) -> None:
    me = headers_of(await lone_deployment.key(), "ada")
    await service.save(me, "Likes tea.")
    env = {"DATABASE_URL": lone_deployment.dsn}
    refused = await memlane("purge", "user", "ada", "--project", "shop", env=env, stdin=b"n\n")
    assert refused.code != 0
    assert (await purge(lone_deployment, "user", "ada", "--project", "shopp")).code == 1
    assert (await purge(lone_deployment, "memory", "no-id", "--project", "shop")).code == 2
    assert len((await service.list(me))["memories"]) == 1


async def _fill(deployment: Deployment, service: Service, rows: int) -> None:
    await service.save(headers_of(await deployment.key(), "ada"), "The first one.")
    await deployment.execute(_BULK, "ada", rows)
    await deployment.execute("update channels set seq = seq + $1, live_rows = live_rows + $1 * 9 / 10", rows)


async def test_the_only_user_of_a_database_leaves_no_sample_in_the_planners_statistics(
    lone_deployment: Deployment, service: Service, redis: RedisServer
) -> None:
    key = await lone_deployment.key()
    ada = headers_of(key, "ada")
    for number in range(6):
        await service.save({**ada, "Idempotency-Key": f"a{number}"}, f"{NEEDLE} likes tea number {number}.")
        await service.save({**ada, "Idempotency-Key": f"b{number}"}, f"{NEEDLE.lower()} likes tea number {number}")
        await service.save(ada, f"{NEEDLE} ships on day {number}.", scope="project")
    await lone_deployment.execute(
        "insert into channel_statistics (project_id, channel_id, space_id, live, rows, centre, terms, counts, seq)"
        " select project_id, id, (select min(id) from embedding_spaces), 6, 6, '{}', array['xanthipp', 'ship'],"
        " array[6, 6], seq from channels"
    )
    await lone_deployment.execute("analyze")
    sampled = {f"samples of {name}" for name in ("memories", "memory_revisions", "idempotency_keys")}
    assert sampled <= set(await places_of(lone_deployment, redis, NEEDLE)), "the search finds samples"

    receipt = await receipt_of(lone_deployment, "project", "shop")
    assert (receipt["erased"]["memories"], receipt["heldBackBy"], receipt["notVacuumed"]) == (12, 0, [])
    assert await places_of(lone_deployment, redis, NEEDLE) == []
    for table in ("memory_revisions", "idempotency_keys", "channel_statistics"):
        assert await lone_deployment.fetch(f"select * from {table}") == []  # noqa: S608 - our own names


async def test_the_ledger_names_what_a_purge_was_for_and_who_wanted_it(
    lone_deployment: Deployment, service: Service
) -> None:
    me = headers_of(await lone_deployment.key(), "ada")
    saved = await service.save(me, f"{NEEDLE} likes tea.")
    whose = ("memory", saved["id"], "--project", "shop")
    refused = await purge(lone_deployment, *whose, "--source", "no type")
    assert (refused.code, "--source" in refused.err, "must be <type>:<id>" in refused.err) == (2, True, True)
    long = await purge(lone_deployment, *whose, "--triggered-by", "x" * 257)
    assert (long.code, "--triggered-by" in long.err, "256 characters" in long.err) == (2, True, True)
    receipt = await receipt_of(lone_deployment, *whose, "--source", "ticket:4711", "--triggered-by", "the privacy desk")
    (row,) = await lone_deployment.fetch(
        "select run, source_type, source_id, source_trust, triggered_by from write_ledger where operation = 'purged'"
    )
    assert tuple(row.values()) == (receipt["receipt"], "ticket", "4711", "trusted", "the privacy desk")


async def test_a_receipt_tells_of_a_transaction_that_can_still_read_what_was_erased(
    lone_deployment: Deployment, service: Service
) -> None:
    me = headers_of(await lone_deployment.key(), "ada")
    await service.save(me, f"{NEEDLE} likes tea.")
    reader = await asyncpg.connect(lone_deployment.dsn, timeout=5)
    try:
        await reader.execute("begin isolation level repeatable read")
        assert await reader.fetchval("select count(*) from memories where content <> ''") == 1
        receipt = await receipt_of(lone_deployment, "user", "ada", "--project", "shop")
        assert await reader.fetchval("select count(*) from memories where content <> ''") == 1, "it still reads it"
        await reader.execute("commit")
    finally:
        await reader.close()
    assert receipt["heldBackBy"] == 1
    assert "run the purge again" in receipt["notReached"][0]
    again = await receipt_of(lone_deployment, "user", "ada", "--project", "shop")
    assert (again["heldBackBy"], again["tombstones"]) == (0, 1)
    assert "run the purge again" not in str(again["notReached"])


@dataclass
class Watch:
    """Takes a channel's lock again and again, as writers do, and notes how long that takes, in seconds.

    Beside it, what the machine itself takes: of the processors (how late a nap ends), and of the disk, for which each
    commit waits.
    """

    dsn: str
    file: Path
    waits: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    flushes: list[float] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def forget(self) -> None:
        for measured in (self.waits, self.delays, self.flushes):
            measured.clear()

    async def write(self) -> None:
        connection = await asyncpg.connect(self.dsn, timeout=5)
        try:
            while not self.stop.is_set():
                began = time.monotonic()
                await connection.fetch("select seq from channels where user_id = 'ada' for no key update")
                self.waits.append(time.monotonic() - began)
                began = time.monotonic()
                await asyncio.sleep(0.005)
                self.delays.append(time.monotonic() - began - 0.005)
        finally:
            await connection.close()

    async def flush(self) -> None:
        while not self.stop.is_set():
            self.flushes.append(await asyncio.to_thread(self._flushed))
            await asyncio.sleep(0.05)

    def _flushed(self) -> float:
        began = time.monotonic()
        with self.file.open("wb") as file:
            file.write(b"x" * 8192)
            file.flush()
            os.fsync(file.fileno())
        return time.monotonic() - began


async def test_fifty_thousand_rows_go_while_writers_never_wait_long_and_a_killed_run_is_resumed(
    lone_deployment: Deployment, service: Service, redis: RedisServer, tmp_path: Path
) -> None:
    rows = 50_000
    await _fill(lone_deployment, service, rows)
    env = {"DATABASE_URL": lone_deployment.dsn}
    watch = Watch(lone_deployment.dsn, tmp_path / "probe")
    watching = asyncio.gather(watch.write(), watch.flush())
    first = await started("purge", "user", "ada", "--project", "shop", "--yes", env=env)
    counted = "select count(*) from memories where purged_at is not null"
    while (await lone_deployment.fetch(counted))[0][0] < 5_000:
        assert first.returncode is None
        await asyncio.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    await first.communicate()
    done = (await lone_deployment.fetch(counted))[0][0]
    assert 5_000 <= done < rows

    watch.forget()
    second = await started("purge", "user", "ada", "--project", "shop", "--yes", env=env)
    async with asyncio.timeout(240):
        out, _ = await second.communicate()
    watch.stop.set()
    await watching
    receipt = json.loads(out)
    assert receipt["erased"]["memories"] == rows + 1 - done
    assert (receipt["tombstones"], receipt["writtenMeanwhile"]) == (rows + 1, 0)
    assert await places_of(lone_deployment, redis, NEEDLE) == []
    assert receipt["batches"] >= (rows - done) / 200, "no batch is large"
    assert sorted(watch.waits)[int(len(watch.waits) * 0.99)] < 0.1
    # What the machine itself took from this very test, of its processors and its disk, is no lock.
    stood_still = max(watch.delays) + max(watch.flushes)
    assert receipt["longestLockMs"] / 1000 < 0.1 + stood_still
    assert max(watch.waits) < 0.1 + stood_still
    assert (await lone_deployment.fetch("select live_rows from channels where user_id = 'ada'"))[0][0] == 0
