"""`memlane bench-stream`: fan-out, latency, memory and a stalled reader, in one run on the embedded Postgres."""

import asyncio
import json
import os
import platform
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from memlane import __version__
from memlane.bench.deployment import HOST, START_SECONDS, BenchFailed, Seed, environment_of, prepare
from memlane.bench.stream_floor import StreamFloor
from memlane.bench.stream_measures import (
    Service,
    StreamPlan,
    measure_fan_out_and_memory,
    measure_latency,
    measure_stall,
    memories_of,
)
from memlane.bench.stream_processes import Mark, allow_files, child, peer
from memlane.bench.stream_readers import Readers
from memlane.bench.stream_report import StreamResults, lines_of, stream_as_json, stream_as_table
from memlane.cli.serve import serve_process
from memlane.cli.server import bound_socket, run_loop, serve_metrics
from memlane.embedded.postgres import DEFAULT_VERSION, EmbeddedPostgres
from memlane.observability.logs import set_up_logs
from memlane.preflight import load_settings
from memlane.realtime import hub
from memlane.realtime.feed import Feed, frame_of_event

FULL = StreamPlan(
    sockets=1000,
    events=20,
    rounds=7,
    users=500,
    per_second=200,
    seconds=15,
    readers=500,
    reader_per_second=30,
    reader_seconds=6,
    reader_rounds=4,
    fill=220,
)
QUICK = StreamPlan(
    sockets=20,
    events=2,
    rounds=1,
    users=10,
    per_second=40,
    seconds=1,
    readers=10,
    reader_per_second=20,
    reader_seconds=0.5,
    reader_rounds=1,
    fill=10,
)


@click.command("bench-stream")
@click.option("--quick", is_flag=True, help="Few sockets and short rounds: checks that it runs, measures little.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def bench_stream(quick: bool, as_json_: bool) -> None:
    """Measure the live stream: fan-out, latency, memory of a socket, a stalled reader.

    Starts an embedded Postgres in a temporary folder and one server process that does everything, as
    `memlane dev` does without Redis. A bare `websockets` server that broadcasts the same bytes takes turns with
    it. Takes about four minutes; docs/benchmarks.md says how to read the table.
    """
    plan = QUICK if quick else FULL
    allow_files(plan.open_files)
    folder = Path(tempfile.mkdtemp(prefix="memlane-bench-"))
    try:
        found = _run(plan, folder, Console(stderr=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json_:
        click.echo(json.dumps(stream_as_json(found, _about(plan))))
        return
    Console().print(stream_as_table(found))
    findings = lines_of(found)
    click.echo(f"{sum(one.verdict == 'met' for one in findings)} of {len(findings)} aims are met.")


def _run(plan: StreamPlan, folder: Path, console: Console) -> StreamResults:
    postgres = EmbeddedPostgres(folder / "postgres")
    try:
        with console.status("Starting Postgres…") as status:
            asyncio.run(postgres.start())
            return _measure(plan, postgres.dsn(), folder / "server.log", status)
    finally:
        asyncio.run(postgres.stop())


def _measure(plan: StreamPlan, dsn: str, log_path: Path, status: Status) -> StreamResults:
    status.update("Filling the database…")
    deployment = asyncio.run(prepare(dsn, Seed(plan.users, 1), on_memories=lambda _: None))
    memories = asyncio.run(memories_of(deployment))
    first_write, floor_write, metrics_port = Mark(), Mark(), _free_port()
    variables = {
        **environment_of(deployment),
        "MEMLANE_DRAIN_SECONDS": "0",
        "MEMLANE_METRICS_PORT": str(metrics_port),
    }
    with (
        child("server", serve_all, variables, deployment.port, log_path, first_write) as (ready, process_id),
        peer("readers", Readers) as readers,
        peer("floor", StreamFloor, floor_write) as floor,
    ):
        _wait_until_ready(ready, log_path)
        service = Service(deployment, process_id, metrics_port, first_write)
        status.update(f"One event to {plan.sockets} sockets…")
        idle, fan_out = measure_fan_out_and_memory(service, readers, floor, floor_write, plan)
        status.update(f"{plan.per_second:.0f} writes a second of {plan.users} users…")
        latency, published = measure_latency(service, readers, memories, plan)
        status.update(f"One of {plan.readers} readers stalls…")
        stall = measure_stall(service, readers, plan)
    return StreamResults(fan_out, latency, published, plan.users, plan.per_second, idle, stall)


def serve_all(ready: Connection, variables: Mapping[str, str], port: int, log_path: Path, first_write: Mark) -> None:
    """The server's process: every role in one, which says over the pipe that it is ready.

    Args:
        ready: Gets one message.
        variables: Its settings.
        port: Where it listens, on loopback.
        log_path: Its log.
        first_write: Where it notes the moment at which an event's frame is made, right before the first write.
    """

    def noted(feed: Feed, payload: Mapping[str, Any]) -> bytes | None:
        frame = frame_of_event(feed, payload)
        first_write.set(time.monotonic())
        return frame

    async def tell() -> None:
        ready.send(True)

    # Once an event, whatever the number of its sockets; the hub itself runs as it is.
    vars(hub)["frame_of_event"] = noted
    settings = replace(load_settings(variables, command="memlane bench-stream"), host=HOST)
    with log_path.open("w", buffering=1, encoding="utf-8") as log_file:
        set_up_logs("WARNING", log_file)
        serve_metrics(settings.metrics_port, HOST)
        bound = bound_socket(HOST, port)
        run_loop(lambda: serve_process(settings, bound, on_ready=tell))


def _wait_until_ready(ready: Connection, log_path: Path) -> None:
    with suppress(EOFError, OSError):
        if ready.poll(START_SECONDS) and ready.recv():
            return
    tail = log_path.read_text(encoding="utf-8", errors="replace")[-2000:].strip() if log_path.exists() else ""
    raise BenchFailed(f"the server did not become ready; its log says:\n{tail}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _about(plan: StreamPlan) -> dict[str, Any]:
    return {
        "version": __version__,
        "machine": {
            "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "postgres": DEFAULT_VERSION,
        },
        "plan": asdict(plan),
    }
