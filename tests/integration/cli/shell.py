"""Runs `memlane` as a user does: a process of its own, with an environment that the test chose."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from integration.rest.house import Borrowed
from memlane.usecases.ports import Embedder

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


def borrowed(embedder: Embedder) -> Embedder:
    """The shared embedder, as one that a service does not close when it stops."""
    lent: Any = Borrowed(embedder)
    return cast("Embedder", lent)


async def memlane(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: bytes | None = None
) -> Ran:
    """Run a command to its end; nothing of this process's environment but PATH is handed on."""
    process = await started(*arguments, env=env, cwd=cwd)
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(stdin)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    ran = Ran(process.returncode, out.decode(), err.decode())
    assert "Traceback" not in ran.said, ran.said
    return ran


async def started(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, program: Sequence[str] = ()
) -> asyncio.subprocess.Process:
    """Start a command in a process group of its own."""
    return await asyncio.create_subprocess_exec(
        *(program or (sys.executable, "-m", "memlane")),
        *arguments,
        env={"PATH": os.environ["PATH"], **(env or {})},
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
