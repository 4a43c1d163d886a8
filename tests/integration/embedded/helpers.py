"""What the tests of the embedded Postgres share."""

import asyncio
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from memlane.embedded.binaries import PostgresVersion
from memlane.embedded.postgres import EmbeddedPostgres

OWNER = Path(__file__).with_name("owner.py")


async def notes(dsn: str) -> list[int]:
    connection = await asyncpg.connect(dsn)
    try:
        return [row["n"] for row in await connection.fetch("select n from notes order by n")]
    finally:
        await connection.close()


async def save(dsn: str, *numbers: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("create table if not exists notes (n int)")
        for n in numbers:
            await connection.execute("insert into notes values ($1)", n)
    finally:
        await connection.close()


async def ask(dsn: str, question: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


@asynccontextmanager
async def owner(
    data_dir: Path,
    version: PostgresVersion = 18,
    saved: int = 0,
    *,
    python: str = sys.executable,
    prefix: Sequence[str] = (),
    cwd: Path | None = None,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, Any]]]:
    """Run owner.py, and give the process and what it said; it is killed at the end."""
    server = Path(sys.modules["memlane"].__file__ or "").parent.parent
    packages = [path for path in sys.path if path.endswith("site-packages")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(server), *packages])}
    process = await asyncio.create_subprocess_exec(
        *prefix, python, str(OWNER), str(data_dir), str(version), str(saved),
        stdout=asyncio.subprocess.PIPE, env=environment, cwd=cwd,
    )  # fmt: skip
    assert process.stdout is not None
    said: dict[str, Any] = {}
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
        assert line, "the owner ended without a word"
        said = json.loads(line)
        yield process, said
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if "postmaster" in said:
            await gone(said["postmaster"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:  # noqa: ASYNC110 - a process is no event of ours
        await asyncio.sleep(0.02)
    return not is_alive(pid)


def leash_of(said: dict[str, Any]) -> list[int]:
    """Give the leash and its watcher: all that tie a server to its owner."""
    leash = int(said["leash"])
    children = Path(f"/proc/{leash}/task/{leash}/children").read_text().split()
    return [leash, *(int(child) for child in children if int(child) != said["postmaster"])]


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def python_for_others() -> str | None:
    """Name an interpreter of our version that any user can run."""
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return shutil.which(here, path="/usr/bin:/usr/local/bin")


def server_on(data_dir: Path, version: PostgresVersion = 18) -> EmbeddedPostgres:
    return EmbeddedPostgres(data_dir, version, durable=False)
