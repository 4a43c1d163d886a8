"""The Node process that hosts the published clients (`node/driver.mjs`), as seen from a test."""

import asyncio
import itertools
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parent / "node"
OWN_BUILT = Path(__file__).parents[2] / "client-js" / "dist" / "index.js"
PHOENIX = ("1.8.16", "1.8.4")
"""The published versions that the oracle runs on, each in a folder of its own beside the driver."""
OWN = "own"
"""Stands for a version of phoenix: our own client, as `client-js` builds it."""
LINE_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """A client to open: its name, whose it is, its phoenix (or `OWN`), and its first answers' delays in ms by kind."""

    name: str
    user: str
    phoenix: str = PHOENIX[0]
    holds: Mapping[str, Sequence[int]] | None = None


class DriverFault(Exception):
    """The driver answered with an error."""


class Driver:
    """Use as an async context manager. Each method is one command of `driver.mjs`."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._stderr: asyncio.Task[None] | None = None
        self.complaints: list[str] = []

    async def __aenter__(self) -> Self:
        """Start Node."""
        missing = [version for version in PHOENIX if not (FOLDER / f"phoenix-{version}" / "node_modules").is_dir()]
        if shutil.which("node") is None or missing or not OWN_BUILT.is_file():
            raise RuntimeError("The clients are not installed: run `make oracle-setup`")
        self._process = await asyncio.create_subprocess_exec(
            "node",
            str(FOLDER / "driver.mjs"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_MAX,
        )
        self._reader = asyncio.create_task(self._read())
        self._stderr = asyncio.create_task(self._read_complaints())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End Node."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        for task in (self._reader, self._stderr):
            if task is not None:
                await task

    async def embedder(self) -> dict[str, str]:
        """Serve embeddings without a model; gives the variables of an API that uses them."""
        served = await self._ask("embedder")
        return {
            "MEMORY_EMBEDDINGS_URL": served["url"],
            "MEMORY_EMBEDDING_MODEL": "oracle",
            "MEMORY_EMBEDDING_DIMENSIONS": str(served["dimensions"]),
        }

    async def bff(self, name: str, apis: Sequence[str], key: str, *, seed: int = 0, slow: bool = False) -> None:
        """Make a BFF by this name; a slow one delays answers at random."""
        await self._ask("bff", name=name, apis=apis, key=key, seed=seed, slow=slow)

    async def open(self, bff: str, ws_url: str, wanted: Sequence[Wanted]) -> None:
        """Open clients."""
        described = [
            {"name": one.name, "user": one.user, "phoenix": one.phoenix, "holds": one.holds or {}} for one in wanted
        ]
        await self._ask("open", bff=bff, wsUrl=ws_url, wanted=described)

    async def reload(self, names: Sequence[str]) -> None:
        """Load clients' pages again."""
        await self._ask("reload", names=names)

    async def close(self, names: Sequence[str]) -> None:
        """Close clients."""
        await self._ask("close", names=names)

    async def start(self, bff: str, seed: int, pace_ms: int) -> None:
        """Let every user take random steps, one per ``pace_ms`` on average."""
        await self._ask("start", bff=bff, seed=seed, pace=pace_ms)

    async def stop(self) -> dict[str, int]:
        """End the steps, wait until no answer is under way, and give how many there were of each kind."""
        counts: dict[str, int] = await self._ask("stop")
        return counts

    async def reports(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """What the clients show now."""
        found: list[dict[str, Any]] = await self._ask("report", **({} if names is None else {"names": names}))
        return found

    async def report(self, name: str) -> dict[str, Any]:
        """What one client shows now."""
        return (await self.reports([name]))[0]

    async def connected(self) -> bool:
        """Whether every client has all its sockets open."""
        connected: bool = await self._ask("connected")
        return connected

    async def journal(self, name: str) -> list[dict[str, Any]]:
        """All that reached a client, in order."""
        entries: list[dict[str, Any]] = await self._ask("journal", name=name)
        return entries

    async def hold(self, name: str, kind: str, *waits_ms: int) -> None:
        """Delay the next answers of a kind."""
        await self._ask("hold", name=name, kind=kind, waits=waits_ms)

    async def act(self, name: str, act: str, *values: object) -> Any:
        """Call a method of a client's store."""
        return await self._ask("act", name=name, act=act, values=values)

    async def _ask(self, command: str, **values: object) -> Any:
        if self._process is None or self._process.stdin is None:
            raise RuntimeError("the driver does not run")
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({"id": number, "command": command, **values}).encode() + b"\n")
        return await waiting

    async def _read(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        while line := await self._process.stdout.readline():
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"])
            if "error" in answer:
                waiting.set_exception(DriverFault(answer["error"]))
            else:
                waiting.set_result(answer["result"])
        for waiting in self._waiting.values():
            waiting.set_exception(DriverFault(f"the driver ended: {self.complaints[-5:]}"))

    async def _read_complaints(self) -> None:
        if self._process is None or self._process.stderr is None:
            return
        while line := await self._process.stderr.readline():
            self.complaints.append(line.decode(errors="replace").rstrip())
