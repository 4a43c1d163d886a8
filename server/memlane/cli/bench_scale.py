"""`memlane bench-scale`: recall on a project channel of 200,000 memories beside one of 2,000."""

import asyncio
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from memlane.bench.scale import Measured, measure
from memlane.cli.progress import progress
from memlane.embedded.postgres import EmbeddedPostgres


@click.command("bench-scale")
@click.option("--rows", type=click.IntRange(6_000, 5_000_000), default=200_000, show_default=True)
@click.option("--small", type=click.IntRange(100, 4_000), default=2_000, show_default=True)
@click.option("--queries", type=click.IntRange(5, 1_000), default=50, show_default=True)
@click.option("--plans", is_flag=True, help="Also EXPLAIN ANALYZE of each statement.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_scale(rows: int, small: int, queries: int, plans: bool, as_json: bool) -> None:
    """Compare recall by the index with the exact answer, and its time with that of a small channel.

    Starts an embedded Postgres in a temporary folder (it takes some 2 GB) and seeds it with invented memories. Takes
    about ten minutes; docs/recall.md says how to read it.
    """
    console = Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="memlane-bench-"))
    postgres = EmbeddedPostgres(folder / "postgres")
    try:
        asyncio.run(postgres.start())
        with progress(console) as bar:
            task = bar.add_task("rows", total=rows + small)
            measured = asyncio.run(
                measure(postgres.dsn(), rows, small, queries, lambda count: bar.advance(task, count))
            )
    finally:
        asyncio.run(postgres.stop())
        shutil.rmtree(folder, ignore_errors=True)
    click.echo(json.dumps(asdict(measured)) if as_json else _told(measured, plans=plans))


def _told(one: Measured, *, plans: bool) -> str:
    lines = [
        f"recall, {one.rows:,} memories:  p50 {one.p50_ms:.1f} ms, p95 {one.p95_ms:.1f} ms",
        f"recall, {one.small_rows:,} memories:  p50 {one.small_p50_ms:.1f} ms, p95 {one.small_p95_ms:.1f} ms",
        f"p95, large by small: {one.p95_ms / one.small_p95_ms:.2f} (aim: at most 3)",
        f"exact ten nearest that the index finds: {one.nearest_recall:.3f} (aim: at least .98)",
        f"exact ten best answers that are answered: {one.answer_recall:.3f} (aim: at least .98)",
        f"results of 20 under a filter that one memory in 400 passes: {one.filtered}",
        f"the index was built in {one.build_seconds:.0f} s, the statistics counted in {one.count_seconds:.1f} s",
    ]
    if plans:
        lines += [f"\n{name}\n{plan}" for name, plan in one.plans.items()]
    return "\n".join(lines)
