"""The embedded server as its owner sees it: it starts, keeps what it is given, and stops."""

import asyncio
import os
import time
from pathlib import Path

import asyncpg
import pytest

from integration.embedded.helpers import ask, gone, mode, notes, save, server_on
from memlane.embedded import socket_folder
from memlane.embedded.binaries import PostgresVersion
from memlane.embedded.faults import (
    DataFolderInUse,
    DataFolderUnusable,
    EmbeddedPostgresFailed,
    OtherMajorVersion,
)
from memlane.embedded.postgres import EmbeddedPostgres

LISTEN = "0A"  # state of a listening socket in /proc/net/tcp, see proc_pid_net(5)


def listening_inodes() -> set[str]:
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        if (path := Path("/proc/net", table)).exists()
        for line in path.read_text().splitlines()[1:]
    ]
    return {row[9] for row in rows if row[3] == LISTEN}


def socket_inodes(pid: int | None) -> set[str]:
    targets = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


async def logged(server: EmbeddedPostgres, words: str, times: int) -> str:
    async with asyncio.timeout(10):
        while (log := server.log_path.read_text()).count(words) < times:  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.05)
    return log


async def test_a_restart_keeps_the_data(place: Path, version: PostgresVersion) -> None:
    server = EmbeddedPostgres(place / "data", version)
    await server.start()
    await save(server.dsn(), 1, 2)
    await server.stop()
    assert server.pid is None
    await server.start()
    try:
        assert await notes(server.dsn()) == [1, 2]
    finally:
        await server.stop()


async def test_the_named_database_is_made_and_is_utf8_with_vectors(postgres: EmbeddedPostgres) -> None:
    await postgres.ensure_database('odd "name" / ü')
    dsn = postgres.dsn('odd "name" / ü')
    assert await ask(dsn, "select current_database()") == 'odd "name" / ü'
    assert await ask(dsn, "show server_encoding") == "UTF8"
    assert await ask(dsn, "show timezone") == "UTC"
    assert await ask(dsn, "select lower('ÄΣЖ')") == "äσж"
    assert await ask(dsn, "select count(*) from pg_available_extensions where name = 'vector'") == 1


async def test_a_stop_during_open_connections_and_a_second_stop_are_clean(place: Path) -> None:
    server = server_on(place / "data")
    await server.start()
    connection = await asyncpg.connect(server.dsn())
    pid = server.pid
    assert pid is not None
    started = time.monotonic()
    await server.stop()
    await server.stop()
    assert time.monotonic() - started < 10
    assert await gone(pid)
    assert not server.running
    connection.terminate()
    assert "database system is shut down" in server.log_path.read_text()


async def test_a_second_start_of_a_running_server_changes_nothing(place: Path) -> None:
    async with server_on(place / "data") as server:
        pid = server.pid
        await server.start()
        assert server.pid == pid


async def test_two_owners_of_one_folder_are_refused_and_told_what_to_do(place: Path) -> None:
    async with server_on(place / "data") as first:
        second = server_on(place / "data")
        with pytest.raises(DataFolderInUse, match=f"process {os.getpid()}.*--data-dir"):
            await second.start()
        await second.stop()
        assert await ask(first.dsn(), "select 1") == 1
    async with server_on(place / "data") as third:
        assert await ask(third.dsn(), "select 1") == 1


async def test_a_folder_of_another_major_version_is_refused_and_left_alone(place: Path) -> None:
    async with server_on(place / "data", 16) as server:
        await save(server.dsn(), 7)
    with pytest.raises(OtherMajorVersion, match=r"made by Postgres 16, and this is Postgres 18.*export"):
        await server_on(place / "data", 18).start()
    async with server_on(place / "data", 16) as server:
        assert await notes(server.dsn()) == [7]


async def test_a_folder_that_is_no_cluster_is_refused(place: Path) -> None:
    (place / "data" / "postgres").mkdir(parents=True)
    with pytest.raises(DataFolderUnusable, match="not a readable Postgres folder"):
        await server_on(place / "data").start()


async def test_what_a_killed_initdb_left_is_cleared_away(place: Path) -> None:
    partial = place / "data" / "postgres.partial"
    partial.mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")
    async with server_on(place / "data") as server:
        assert not partial.exists()
        assert await ask(server.dsn(), "select 1") == 1


async def test_the_server_listens_on_no_tcp_port(postgres: EmbeddedPostgres) -> None:
    opened = socket_inodes(postgres.pid)
    assert opened
    assert not opened & listening_inodes()
    assert await ask(postgres.dsn(), "show listen_addresses") == ""


async def test_only_the_owner_can_reach_the_socket_and_the_files(postgres: EmbeddedPostgres) -> None:
    assert mode(postgres.socket_folder) == 0o700
    assert mode(postgres.socket_folder / ".s.PGSQL.5432") == 0o700
    assert mode(postgres.cluster) == 0o700
    assert mode(postgres.data_dir) in ({0o700, 0o710} if os.geteuid() == 0 else {0o700})
    assert mode(postgres.log_path) == 0o600
    assert mode(postgres.data_dir / "lock") == 0o600


async def test_a_folder_of_ours_that_was_opened_is_closed_again(place: Path) -> None:
    async with server_on(place / "data"):
        pass
    (place / "data").chmod(0o777)
    async with server_on(place / "data"):
        assert not mode(place / "data") & 0o067


async def test_a_folder_that_holds_other_things_keeps_its_mode(place: Path) -> None:
    (place / "readme").touch()
    async with server_on(place) as server:
        assert mode(place) == 0o755
        assert mode(server.cluster) == 0o700


@pytest.mark.parametrize("name", ["d" * 120, "with space, comma'quote", "ü"])
async def test_a_path_too_long_or_too_odd_for_a_socket_is_no_hindrance(place: Path, name: str) -> None:
    async with server_on(place / name / "data") as server:
        assert len(os.fsencode(server.socket_folder / ".s.PGSQL.5432")) <= socket_folder.SOCKET_PATH_BYTES
        assert server.socket_folder.parent != server.data_dir
        assert server.socket_folder == server_on(place / name / "data").socket_folder
        assert mode(server.socket_folder) == 0o700
        assert await ask(server.dsn(), "select 1") == 1
    server.socket_folder.rmdir()


@pytest.mark.parametrize("squat", ["link", "file"])
async def test_a_squatted_socket_folder_is_refused_and_not_touched(place: Path, squat: str) -> None:
    server = server_on(place / ("d" * 120))
    victim = place / "victim"
    victim.mkdir(mode=0o755)
    victim.chmod(0o755)
    if squat == "link":
        server.socket_folder.symlink_to(victim)
    else:
        server.socket_folder.touch()
    try:
        with pytest.raises(DataFolderUnusable, match="belongs to somebody else"):
            await server.start()
        assert mode(victim) == 0o755
        assert victim.stat().st_uid == os.geteuid()
    finally:
        server.socket_folder.unlink()


async def test_another_users_socket_folder_is_refused(root_only: None, place: Path) -> None:
    del root_only
    server = server_on(place / ("d" * 120))
    server.socket_folder.mkdir(mode=0o700)
    os.chown(server.socket_folder, 12345, 12345)
    try:
        with pytest.raises(DataFolderUnusable, match="belongs to somebody else"):
            await server.start()
    finally:
        server.socket_folder.rmdir()


async def test_no_text_of_a_statement_reaches_the_log(place: Path, version: PostgresVersion) -> None:
    told = "anna-lives-in-bern"
    async with server_on(place / "data", version) as server:
        connection = await asyncpg.connect(server.dsn())
        await connection.execute("create table letters (words text primary key)")
        await connection.execute("insert into letters values ($1)", told)
        for statement, arguments in (
            ("insert into letters values ($1)", (told,)),
            ("select ($1::text)::int", (told,)),
            ("select ($1::text)::json", (told,)),
            (f"select '{told}'::uuid", ()),
            (f"selekt '{told}'", ()),
            (f"do $$ begin raise warning '{told}'; raise exception '{told}'; end $$", ()),
        ):
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(statement, *arguments)
        # A worker that dies would have its statement quoted in the postmaster's report.
        worker = await connection.fetchval("select pg_backend_pid()")
        sleeping = asyncio.ensure_future(connection.execute(f"select '{told}', pg_sleep(60)"))
        await asyncio.sleep(0.2)
        os.kill(worker, 9)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await sleeping
        connection.terminate()
        log = await logged(server, "ready to accept connections", times=2)
        assert "was terminated by signal 9" in log
    log = server.log_path.read_text()
    assert told not in log
    assert "letters" not in log


async def test_the_log_of_the_previous_start_is_kept_and_no_more(place: Path) -> None:
    for _ in range(3):
        async with server_on(place / "data") as server:
            pass
    assert sorted(path.name for path in server.data_dir.glob("postgres.log*")) == [
        "postgres.log",
        "postgres.log.1",
    ]
    assert server.log_path.read_text().count("starting PostgreSQL") == 1


async def test_a_server_that_cannot_start_says_why_and_frees_the_folder(place: Path) -> None:
    async with server_on(place / "data") as server:
        pass
    control = server.cluster / "global" / "pg_control"
    kept = control.read_bytes()
    control.write_bytes(b"\0" * len(kept))
    with pytest.raises(EmbeddedPostgresFailed, match=r"(?s)did not start.*(FATAL|PANIC)"):
        await server.start()
    control.write_bytes(kept)
    async with server_on(place / "data") as again:
        assert await ask(again.dsn(), "select 1") == 1


async def test_a_cancelled_start_leaves_no_server_and_no_lock(place: Path) -> None:
    server = server_on(place / "data")
    starting = asyncio.ensure_future(server.start())
    await asyncio.sleep(0.1)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert server.pid is None
    async with server_on(place / "data") as again:
        assert await ask(again.dsn(), "select 1") == 1


async def test_settings_of_the_caller_do_not_steer_the_server(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATA", "/nowhere")
    async with server_on(place / "data") as server:
        assert await ask(server.dsn(), "show port") == "5432"


async def test_fsync_is_on_unless_it_was_declined(place: Path) -> None:
    for durable, expected in ((True, "on"), (False, "off")):
        async with EmbeddedPostgres(place / "data", durable=durable) as server:
            assert await ask(server.dsn(), "show fsync") == expected
            assert await ask(server.dsn(), "show full_page_writes") == expected
            assert await ask(server.dsn(), "show synchronous_commit") == "on"
