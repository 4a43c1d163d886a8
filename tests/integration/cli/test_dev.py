"""`memlane dev` as a user meets it: one command, a key, a curl that works when pasted; and a clean end."""

import asyncio
import json
import os
import re
import shlex
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.cli.shell import memlane, started
from memlane.embedded import socket_folder
from support.service import free_port, headers_of

READY_SECONDS = 90.0
STOP_SECONDS = 30.0
ROOT = Path(__file__).parents[3]


@dataclass(slots=True)
class Dev:
    """A running `memlane dev`."""

    process: asyncio.subprocess.Process
    folder: Path
    port: int
    screen: str = ""
    _reading: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        """What a shell that sources dev.env knows."""
        lines = (self.folder / "dev.env").read_text().splitlines()
        pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
        return {name: shlex.split(value)[0] for name, value in pairs}

    @property
    def me(self) -> dict[str, Any]:
        return headers_of(self.env["MEMLANE_API_KEY"], "ada")

    @property
    def curls(self) -> list[str]:
        return [line for line in self.screen.splitlines() if line.startswith("curl ")]

    async def wait_until_ready(self) -> None:
        self._reading = asyncio.ensure_future(self._read())
        async with asyncio.timeout(READY_SECONDS):
            while "Ctrl-C stops everything" not in self.screen:
                assert self.process.returncode is None, self.screen
                await asyncio.sleep(0.05)

    async def ends(self) -> int:
        """Wait for the end; the exit code."""
        async with asyncio.timeout(STOP_SECONDS):
            code = await self.process.wait()
        if self._reading is not None:
            await self._reading
        return code

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.screen += line.decode()


@asynccontextmanager
async def dev(folder: Path, *, by_make: bool = False) -> AsyncIterator[Dev]:
    """Start it, or `make dev` in the checkout, and wait for its screen; whatever of it is left at the end is killed."""
    port = free_port()
    options = ("--port", str(port), "--data-dir", str(folder))
    if by_make:
        process = await started("dev", f"ARGS={shlex.join(options)}", program=["make"], cwd=ROOT)
    else:
        process = await started("dev", *options)
    running = Dev(process, folder, port)
    try:
        await running.wait_until_ready()
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await running.ends()
        for pid in postgres_of(folder):
            os.kill(pid, signal.SIGKILL)


def cluster_of(folder: Path) -> Path:
    """Where the database's own files are."""
    return folder / "postgres" / "postgres"


def postgres_of(folder: Path) -> list[int]:
    """The processes that work on a data folder's cluster."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(cluster_of(folder)) in entry.read_bytes().decode(errors="replace"):
                found.append(int(entry.parent.name))
    return found


def group_of(leader: int) -> list[int]:
    """The processes that are left of a process group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(entry.name)) == leader:
                found.append(int(entry.name))
    return found


async def assert_all_stopped(folder: Path) -> None:
    end = asyncio.get_running_loop().time() + 10
    while postgres_of(folder):
        assert asyncio.get_running_loop().time() < end, "a postgres is left over"
        await asyncio.sleep(0.05)
    assert cluster_of(folder).is_dir()
    assert not (cluster_of(folder) / "postmaster.pid").exists(), "it was shut down, not cut"


async def recalled(running: Dev) -> list[str]:
    async with httpx.AsyncClient(base_url=running.url, timeout=10) as client:
        answer = await client.post(
            "/api/memories/recall", headers=running.me, json={"query": "how does this user like updates"}
        )
    assert answer.status_code == 200, answer.text
    return [one["content"] for one in answer.json()["memories"]]


def listening_addresses(port: int) -> set[str]:
    """The addresses, as the kernel writes them, on which something listens on this port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(table).read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if state == "0A" and local.endswith(f":{port:04X}"):
                    found.add(local.partition(":")[0])
    return found


async def pasted(running: Dev) -> str:
    """What comes of the screen's lines when they are pasted into a shell: a memory saved, and recalled by meaning."""
    shell = await asyncio.create_subprocess_exec("bash", "-c", "\n".join(running.curls), stdout=asyncio.subprocess.PIPE)
    out, _ = await shell.communicate()
    assert shell.returncode == 0
    return out.decode()


async def test_a_newcomer_types_make_dev_and_pastes_what_it_prints(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with dev(folder, by_make=True) as first:
        assert len(first.curls) == 2
        assert json.loads((await pasted(first)).splitlines()[1])["memories"][0]["content"] == (
            "Prefers concise status updates."
        )
        # Ctrl-C in a terminal reaches make and what it runs.
        os.killpg(first.process.pid, signal.SIGINT)
        await first.ends()
        assert "Stopped." in first.screen
        assert "Traceback" not in first.screen
        await assert_all_stopped(folder)
        assert group_of(first.process.pid) == []


async def test_from_the_first_start_to_the_last_stop(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with dev(folder) as first:
        # The screen: a url, where things are, and lines to paste.
        assert first.url in first.screen
        assert f"{first.url}/api/docs" in first.screen
        assert len(first.curls) == 2

        out = await pasted(first)
        assert '"absorbed":false' in out
        score = re.search(r'"score":(0\.\d+|1\.0)', out)
        assert score is not None, out
        assert float(score[1]) > 0.2

        # dev.env tells a script all that it needs, and nobody else.
        env = first.env
        assert env["MEMLANE_API_URL"] == first.url
        assert env["MEMLANE_WS_URL"] == f"ws://127.0.0.1:{first.port}/client"
        assert env["MEMLANE_API_KEY"].startswith("cpk-dev_")
        for name in ("dev.env", "dev.json"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert (await memlane("keys", "list", "--project", "dev", env=env)).code == 0
        assert (await memlane("doctor", env=env)).code == 0

        # Nothing listens for other machines, and the database not at all.
        assert listening_addresses(first.port) == {"0100007F"}
        assert listening_addresses(socket_folder.PORT) == set()

        # Its log is a file of its own, without the key.
        log = (folder / "memlane.log").read_text()
        assert '"route":"/api/memories/recall"' in log
        assert env["MEMLANE_API_KEY"].rpartition("_")[2] not in log

        # A second one on the same folder, or on the same port, says what is in the way and disturbs nothing.
        other = await memlane("dev", "--port", str(free_port()), "--data-dir", str(folder))
        assert other.code != 0
        assert "Another memlane" in other.err
        assert "--data-dir" in other.err
        taken = await memlane("dev", "--port", str(first.port), "--data-dir", str(tmp_path / "elsewhere"))
        assert taken.code == 78
        assert str(first.port) in taken.err
        assert "--port" in taken.err
        assert await recalled(first) == ["Prefers concise status updates."]

        # Ctrl-C reaches the whole process group.
        os.killpg(first.process.pid, signal.SIGINT)
        assert await first.ends() == 0, first.screen
        assert "Stopped." in first.screen
        assert "Traceback" not in first.screen
        await assert_all_stopped(folder)

    async with dev(folder) as second:
        assert (folder / "memlane.log").read_text().startswith(log), "what the first start logged stays"
        assert second.env["MEMLANE_API_KEY"] == env["MEMLANE_API_KEY"], "the key is kept"
        assert second.env["MEMLANE_API_URL"] == second.url, "the port is the new one"
        assert await recalled(second) == ["Prefers concise status updates."]
        second.process.send_signal(signal.SIGTERM)
        assert await second.ends() == 0, second.screen
        await assert_all_stopped(folder)


async def test_a_dev_key_that_was_revoked_is_not_handed_out_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with dev(folder) as first:
        old = first.env
        assert (await memlane("keys", "revoke", old["MEMLANE_API_KEY"], env=old)).code == 0
        first.process.send_signal(signal.SIGTERM)
        assert await first.ends() == 0, first.screen
    async with dev(folder) as second:
        assert "revoked" in second.screen
        assert second.env["MEMLANE_API_KEY"] != old["MEMLANE_API_KEY"]
        assert second.env["MEMLANE_JOIN_SECRETS"] == old["MEMLANE_JOIN_SECRETS"], "all else is kept"
        assert all(second.env["MEMLANE_API_KEY"] in curl for curl in second.curls)
        assert await recalled(second) == []


async def test_a_sigkill_loses_nothing_acknowledged_and_the_next_start_takes_over(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    saved: list[str] = []
    async with dev(folder) as doomed:
        async with httpx.AsyncClient(base_url=doomed.url, timeout=10) as client:

            async def write(worker: int) -> None:
                for number in range(1000):
                    content = f"The shelf {worker} holds the box number {number}."
                    try:
                        answer = await client.post(
                            "/api/memories", headers=doomed.me, json={"content": content, "kind": "topical"}
                        )
                    except httpx.TransportError:
                        return
                    assert answer.status_code == 201, answer.text
                    saved.append(content)

            writers = [asyncio.ensure_future(write(worker)) for worker in range(3)]
            while len(saved) < 30:
                assert doomed.process.returncode is None
                await asyncio.sleep(0.02)
            # The program alone: what it started must notice by itself.
            doomed.process.kill()
            await asyncio.gather(*writers)
        await doomed.process.wait()

        async with dev(folder) as next_one:
            async with httpx.AsyncClient(base_url=next_one.url, timeout=10) as client:
                listed = (await client.get("/api/memories", headers=next_one.me)).json()
            assert set(saved) <= {one["content"] for one in listed["memories"]}
            next_one.process.send_signal(signal.SIGTERM)
            assert await next_one.ends() == 0
            await assert_all_stopped(folder)


async def test_a_database_that_dies_under_it_is_started_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with dev(folder) as running:
        pid = int((cluster_of(folder) / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        async with httpx.AsyncClient(base_url=running.url, timeout=10) as client:
            end = asyncio.get_running_loop().time() + 20
            while pid in postgres_of(folder) or (await client.get("/api/ready")).status_code != 200:
                assert asyncio.get_running_loop().time() < end, (folder / "memlane.log").read_text()
                await asyncio.sleep(0.1)
            body = {"content": "It works again.", "kind": "topical"}
            assert (await client.post("/api/memories", headers=running.me, json=body)).status_code == 201
        told = [json.loads(line) for line in (folder / "memlane.log").read_text().splitlines()]
        events = [line["event"] for line in told if line["event"].startswith("postgres_")]
        assert events == ["postgres_died", "postgres_restarted"]


@pytest.mark.parametrize("what", ["a file", "a folder in a file"])
async def test_a_data_folder_that_cannot_be_one_is_told(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    place = tmp_path / "file" if what == "a file" else tmp_path / "file" / "below"
    ran = await memlane("dev", "--port", str(free_port()), "--data-dir", str(place))
    assert ran.code != 0
    assert "file" in ran.err
