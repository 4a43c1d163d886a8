"""Each side in a process of its own, so that neither's memory or event loop is in the other's way."""

import asyncio
import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Literal

import uvloop

from memlane.bench.deployment import BenchFailed, Deployment
from memlane.bench.floor import Floor
from memlane.bench.rounds import Job, Round, Side
from memlane.bench.service import Service

SideName = Literal["floor", "service"]
ROUND_SECONDS = 120.0
"""Longest round, and longest start of a worker."""
STOP_SECONDS = 10.0


class Worker:
    """The other end of a worker process."""

    def __init__(self, name: SideName, connection: Connection) -> None:
        self._name = name
        self._connection = connection

    def run(self, job: Job) -> Round:
        """Run a round there.

        Raises:
            BenchFailed: It failed, did not answer in time, or its process died.
        """
        answer: Round | str | None = None
        try:
            self._connection.send(job)
            if self._connection.poll(ROUND_SECONDS):
                answer = self._connection.recv()
        except (EOFError, OSError) as fault:
            raise BenchFailed(f"the process of the {self._name} died") from fault
        if isinstance(answer, Round):
            return answer
        raise BenchFailed(f"the {self._name} failed: {answer or f'no answer within {ROUND_SECONDS:.0f} s'}")


@contextmanager
def worker(name: SideName, deployment: Deployment) -> Iterator[Worker]:
    """Run one side in a fresh process until the block ends."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(name, deployment, theirs), name=f"memlane-bench-{name}")
    process.start()
    theirs.close()
    try:
        yield Worker(name, ours)
    finally:
        # The closed pipe ends its loop.
        ours.close()
        process.join(STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(name: SideName, deployment: Deployment, jobs: Connection) -> None:
    # Ctrl-C reaches every process of the terminal; the other end decides, and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        side: Side = runner.run(Floor.open(deployment)) if name == "floor" else Service(deployment)
        with suppress(EOFError, OSError):
            while True:
                job = jobs.recv()
                try:
                    answer: Round | str = runner.run(side.run(job))
                except Exception as fault:  # noqa: BLE001 - told to the other end, which stops the measurement
                    answer = f"{type(fault).__name__}: {fault}"
                jobs.send(answer)
        runner.run(side.aclose())
