"""A kill, of whichever process, loses nothing acknowledged, and the next start takes over."""

import asyncio
import os
import signal
from pathlib import Path

import asyncpg
import pytest

from integration.embedded.helpers import ask, gone, is_alive, kill, leash_of, notes, owner, save, server_on
from memlane.embedded import postmaster
from memlane.embedded.binaries import PostgresVersion
from memlane.embedded.postgres import EmbeddedPostgres


async def test_a_killed_owner_takes_its_server_along(place: Path) -> None:
    async with owner(place / "data", saved=3) as (process, said):
        process.kill()
        await process.wait()
        assert await gone(said["postmaster"])
        assert await gone(said["leash"])


async def test_the_next_start_takes_over_at_once_after_a_kill_of_the_owner(
    place: Path, version: PostgresVersion
) -> None:
    async with owner(place / "data", version, saved=20) as (process, said):
        process.kill()
        await process.wait()
        async with EmbeddedPostgres(place / "data", version) as server:
            assert server.pid != said["postmaster"]
            assert not is_alive(said["postmaster"])
            assert await notes(server.dsn()) == list(range(20))


async def test_a_server_whose_owner_and_leash_are_dead_is_stopped_by_the_next_start(place: Path) -> None:
    async with owner(place / "data", saved=20) as (process, said):
        kill(*leash_of(said), process.pid)
        await process.wait()
        await asyncio.sleep(0.3)
        assert is_alive(said["postmaster"])
        async with EmbeddedPostgres(place / "data") as server:
            assert await gone(said["postmaster"])
            assert await notes(server.dsn()) == list(range(20))


async def test_everything_killed_at_once_loses_nothing_acknowledged(place: Path, version: PostgresVersion) -> None:
    async with owner(place / "data", version, saved=50) as (process, said):
        kill(*leash_of(said), said["postmaster"], process.pid)
        await process.wait()
        async with EmbeddedPostgres(place / "data", version) as server:
            assert await notes(server.dsn()) == list(range(50))


async def test_a_killed_postmaster_is_noticed_and_can_be_started_again(place: Path) -> None:
    async with EmbeddedPostgres(place / "data") as server:
        await save(server.dsn(), 1, 2, 3)
        assert server.pid is not None
        kill(server.pid)
        async with asyncio.timeout(5):
            await server.died()
        await server.start()
        assert server.running
        assert await notes(server.dsn()) == [1, 2, 3]


async def test_a_worker_that_outlives_its_postmaster_is_waited_for(place: Path) -> None:
    async with server_on(place / "data") as server:
        connection = await asyncpg.connect(server.dsn())
        await save(server.dsn(), 1)
        worker = await connection.fetchval("select pg_backend_pid()")
        assert server.pid is not None
        os.kill(worker, signal.SIGSTOP)
        kill(server.pid)
        await server.died()
        waking = asyncio.get_running_loop().call_later(1, os.kill, worker, signal.SIGCONT)
        await server.start()
        waking.cancel()
        assert await gone(worker)
        assert await notes(server.dsn()) == [1]
        connection.terminate()


async def test_a_server_whose_leash_alone_was_killed_is_stopped_by_its_owner(place: Path) -> None:
    server = server_on(place / "data")
    await server.start()
    pid, leash = server.pid, server._leash
    assert pid is not None
    assert leash is not None
    kill(leash.pid)
    leash.wait()
    await server.stop()
    assert await gone(pid)


async def test_a_server_that_hears_no_request_is_killed_within_the_bound_and_loses_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postmaster, "FAST_SECONDS", 0.3)
    monkeypatch.setattr(postmaster, "IMMEDIATE_SECONDS", 0.3)
    async with EmbeddedPostgres(place / "data") as server:
        await save(server.dsn(), 9)
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await server.stop()
        assert await gone(pid)
    monkeypatch.undo()
    async with EmbeddedPostgres(place / "data") as server:
        assert await notes(server.dsn()) == [9]


async def test_a_stale_pid_file_that_names_a_living_stranger_is_no_hindrance(place: Path) -> None:
    async with server_on(place / "data") as server:
        await save(server.dsn(), 5)
        assert server.pid is not None
        file = server.cluster / "postmaster.pid"
        left = file.read_text().splitlines()
        kill(server.pid)
        await server.died()
        file.write_text("\n".join([str(os.getppid()), *left[1:]]) + "\n")
        assert postmaster.leftover(server.cluster) is None
        await server.start()
        assert await notes(server.dsn()) == [5]
    assert is_alive(os.getppid())


async def test_an_owner_that_is_interrupted_stops_its_server(place: Path) -> None:
    async with owner(place / "data", saved=1) as (process, said):
        process.send_signal(signal.SIGINT)
        await process.wait()
        assert not is_alive(said["postmaster"])


async def test_two_owners_at_once_are_one_owner_and_one_refusal(place: Path) -> None:
    async with owner(place / "data", saved=1) as (first, _), owner(place / "data") as (_, refused):
        assert refused["code"] == "DATA_FOLDER_IN_USE"
        assert str(first.pid) in refused["error"]


async def test_two_starts_of_a_fresh_folder_at_once_give_one_server(place: Path) -> None:
    servers = [server_on(place / "data") for _ in range(4)]
    outcomes = await asyncio.gather(*(server.start() for server in servers), return_exceptions=True)
    started = [server for server, outcome in zip(servers, outcomes, strict=True) if outcome is None]
    try:
        assert len(started) == 1
        assert await ask(started[0].dsn(), "select 1") == 1
    finally:
        for server in servers:
            await server.stop()


@pytest.mark.parametrize("junk", ["", "\n", "rubbish\n", "0\n"])
def test_a_pid_file_of_rubbish_names_no_server(tmp_path: Path, junk: str) -> None:
    (tmp_path / "postmaster.pid").write_text(junk)
    assert postmaster.leftover(tmp_path) is None
