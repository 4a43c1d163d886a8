"""Processes that are told what to do over a pipe, their memory, and how many files they may open."""

import asyncio
import multiprocessing
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_double
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvloop

from memlane.bench.deployment import BenchFailed

ANSWER_SECONDS = 120.0
"""Longest wait for an answer."""
STOP_SECONDS = 20.0
SPARE_FILES = 256
"""What a process opens beside its sockets, and to spare."""

SPAWN = multiprocessing.get_context("spawn")
"""A fresh interpreter: what this process has loaded would count as theirs."""


class Mark:
    """A moment that one process notes and another reads, in monotonic seconds of this machine."""

    def __init__(self) -> None:
        self._moment: Any = SPAWN.Value(c_double, 0.0, lock=False)

    def set(self, moment: float) -> None:
        """Note it."""
        self._moment.value = moment

    def get(self) -> float:
        """Read what was noted last."""
        return float(self._moment.value)


class Peer:
    """The other end of a process that serves an object."""

    def __init__(self, name: str, connection: Connection) -> None:
        self._name = name
        self._connection = connection

    def call(self, method: str, *arguments: object) -> Any:
        """Have a method of the object run there, and give what it returns.

        Raises:
            BenchFailed: It failed, did not answer in time, or its process died.
        """
        try:
            self._connection.send((method, arguments))
            if not self._connection.poll(ANSWER_SECONDS):
                raise BenchFailed(f"{self._name}: {method} gave no answer within {ANSWER_SECONDS:.0f} s")
            fault, answer = self._connection.recv()
        except (EOFError, OSError) as lost:
            raise BenchFailed(f"{self._name}: the process died") from lost
        if fault:
            raise BenchFailed(f"{self._name}: {method} failed: {fault}")
        return answer


@contextmanager
def child(name: str, target: Callable[..., None], *arguments: object) -> Iterator[tuple[Connection, int]]:
    """Run a function in a fresh process until the block ends; it gets a pipe first, whose other end is given.

    At the end the pipe is closed and the process gets a SIGTERM.
    """
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(theirs, *arguments), name=f"memlane-bench-{name}")
    process.start()
    theirs.close()
    try:
        yield ours, process.pid or 0
    finally:
        ours.close()
        process.terminate()
        process.join(STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def peer(name: str, make: Callable[..., object], *arguments: object) -> Iterator[Peer]:
    """Serve an object in a fresh process until the block ends."""
    with child(name, _serve, make, arguments) as (connection, _):
        yield Peer(name, connection)


def _serve(calls: Connection, make: Callable[..., object], arguments: tuple[object, ...]) -> None:
    # Ctrl-C reaches every process of the terminal; the other end decides, and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        served = make(*arguments)
        with suppress(EOFError, OSError):
            while True:
                method, given = await loop.run_in_executor(None, calls.recv)
                try:
                    answer: tuple[str | None, Any] = (None, await getattr(served, method)(*given))
                except Exception as fault:  # noqa: BLE001 - told to the other end, which stops the measurement
                    answer = (f"{type(fault).__name__}: {fault}", None)
                calls.send(answer)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


def allow_files(sockets: int) -> None:
    """Raise this process's soft limit of open files, which its children inherit, where it is too low.

    Raises:
        BenchFailed: The hard limit is lower.
    """
    needed = sockets + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchFailed(
            f"{needed} open files are needed for {sockets} sockets, and the hard limit is {hard}: "
            f"raise it (ulimit -Hn {needed}, as root) or use --quick"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def resident_kib(process_id: int) -> int:
    """A process's resident memory, in KiB."""
    status = Path(f"/proc/{process_id}/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    words = ["ps", "-o", "rss=", "-p", str(process_id)]
    return int(subprocess.run(words, capture_output=True, check=True).stdout)  # noqa: S603 - a fixed command
