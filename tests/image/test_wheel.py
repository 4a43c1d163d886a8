"""What the image would hold, run as the image would run it: the wheel in a clean virtual environment.

Every role runs as a user without any right, who can write neither the environment nor the working folder.
"""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from chart.helms import ROOT
from memlane import __version__
from support.postgres import fresh_database, private_server
from support.redis import redis_server
from support.service import Deployment, free_port, headers_of

NOBODY = 65534
ROLES = {"api": 4201, "gateway": 4401, "worker": 4501}
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The program of a clean environment, which belongs to another user and can be written by nobody."""
    folder = Path(tempfile.mkdtemp(prefix="memlane-image-"))
    folder.chmod(0o755)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    try:
        run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder / "wheels"), str(ROOT)])
        (wheel,) = (folder / "wheels").iterdir()
        run([_interpreter(), "-m", "venv", "--without-pip", str(folder / "memlane")])
        run([*pip, "--python", str(folder / "memlane" / "bin" / "python"), "install", str(wheel)])
        for path in [folder, *folder.rglob("*")]:
            if not path.is_symlink():
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222 | 0o444)
        yield folder / "memlane" / "bin" / "memlane"
    finally:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(folder)


def _interpreter() -> str:
    """A Python that a user without rights can run: the tests' own may lie in root's home."""
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        words = [program, "-c", "import sys, venv; sys.exit(sys.version_info < (3, 11)); print(sys.prefix)"]
        with suppress(OSError):
            if (
                subprocess.run(words, cwd="/", env={}, check=False, stderr=subprocess.DEVNULL, **AS_NOBODY).returncode
                == 0
            ):
                return program
    raise AssertionError("no Python 3.11 that an unprivileged user can run: sudo apt-get install python3 python3-venv")


def run(words: list[str]) -> None:
    found = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr


def test_the_wheel_holds_the_program_and_nothing_else(installed: Path) -> None:
    (wheel,) = (installed.parents[2] / "wheels").iterdir()
    assert wheel.name == f"memlane-{__version__}-py3-none-any.whl"
    names = subprocess.run([sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in names.stdout.splitlines()[1:]]
    assert {name.partition("/")[0] for name in listed} == {"memlane", f"memlane-{__version__}.dist-info"}
    assert any(name.endswith("0001_house.sql") for name in listed)


def command(
    installed: Path, *words: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [installed, *words],
        cwd=installed.parents[1],
        env={"PATH": os.defpath, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **AS_NOBODY,
    )


def test_nobody_can_write_what_runs(installed: Path) -> None:
    found = subprocess.run(
        [installed.parent / "python", "-c", "open('here', 'w')"],
        cwd=installed.parents[1],
        capture_output=True,
        text=True,
        check=False,
        **AS_NOBODY,
    )
    assert "Permission" in found.stderr or "Read-only" in found.stderr


def test_it_tells_its_version_and_a_wrong_setting(installed: Path) -> None:
    assert command(installed, "--version").stdout.strip().endswith(__version__)
    wrong = command(installed, "gateway")
    assert wrong.returncode == 78
    assert "DATABASE_URL" in wrong.stderr


async def test_every_role_serves_as_an_unprivileged_user_on_a_read_only_tree(installed: Path) -> None:
    async with private_server() as postgres, redis_server() as redis:
        socket_dsn = await fresh_database(postgres)
        async with relayed(socket_dsn) as dsn:
            deployment = Deployment(socket_dsn)
            metrics = {role: str(free_port()) for role in ROLES}
            environment = {
                **deployment.environment(DATABASE_URL=dsn, REDIS_URL=redis.url, MEMLANE_HOST="127.0.0.1"),
                "MEMLANE_DRAIN_SECONDS": "0",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            migrated = await asyncio.to_thread(command, installed, "migrate", environment=environment)
            assert migrated.returncode == 0, migrated.stderr
            ports = {role: str(free_port()) for role in ROLES}
            processes = {
                role: subprocess.Popen(
                    [installed, role],
                    cwd=installed.parents[1],
                    env={"PATH": os.defpath, **environment}
                    | {"MEMLANE_PORT": ports[role], "MEMLANE_METRICS_PORT": metrics[role]},
                    stderr=subprocess.PIPE,
                    **AS_NOBODY,
                )
                for role in ROLES
            }
            try:
                urls = [f"http://127.0.0.1:{port}/api/ready" for port in ports.values()]
                probed = await asyncio.to_thread(command, installed, "probe", "--patience", "40", *urls)
                assert probed.returncode == 0, probed.stdout
                await _serves(deployment, f"http://127.0.0.1:{ports['api']}", list(metrics.values()))
                doctor = await asyncio.to_thread(command, installed, "doctor", environment=environment)
                assert doctor.returncode == 0, doctor.stdout
                await asyncio.to_thread(_backs_up, installed, environment)
                for role, process in processes.items():
                    assert Path(f"/proc/{process.pid}").stat().st_uid == (NOBODY if AS_NOBODY else os.geteuid()), role
            finally:
                for process in processes.values():
                    process.terminate()
                ended = [await asyncio.to_thread(process.communicate, timeout=20) for process in processes.values()]
            assert [process.returncode for process in processes.values()] == [0, 0, 0], ended


async def _serves(deployment: Deployment, url: str, metrics_ports: list[str]) -> None:
    key = await deployment.key()
    async with httpx.AsyncClient(timeout=20) as client:
        draft = {"content": "The kettle is blue.", "kind": "topical"}
        saved = await client.post(f"{url}/api/memories", headers=headers_of(key), json=draft)
        assert saved.status_code == 201, saved.text
        for port in metrics_ports:
            text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
            assert "memlane_task_up" in text


def _backs_up(installed: Path, environment: Mapping[str, str]) -> None:
    """The tools of Postgres come along, and need no more than a folder for the file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        made = command(installed, "backup", "--out", f"{folder}/memlane.dump", environment=environment)
        assert made.returncode == 0, made.stderr
        assert "1 live memories" in made.stdout


@asynccontextmanager
async def relayed(dsn: str) -> AsyncIterator[str]:
    """The same database over TCP: the socket's folder is closed to everybody but the server's user."""
    place = {key: values[0] for key, values in parse_qs(urlsplit(dsn).query).items()}
    path = f"{place['host']}/.s.PGSQL.{place['port']}"

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    split = urlsplit(dsn)
    try:
        yield f"postgresql://{split.username}@127.0.0.1:{port}{split.path}"
    finally:
        server.close()
