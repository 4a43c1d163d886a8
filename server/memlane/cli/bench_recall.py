"""`memlane bench-recall`: how well the service recalls, over HTTP, beside other rankings."""

import asyncio
import json
import shutil
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from memlane.bench.deployment import HOST, BenchFailed, Deployment, Seed, api_process, prepare
from memlane.bench.recall_data import DataSet, load
from memlane.bench.recall_rankings import RIVALS, VARIANTS, Method
from memlane.bench.recall_run import Measured, ServiceUnderTest, measure
from memlane.cli.progress import progress
from memlane.embedded.postgres import EmbeddedPostgres


@click.command("bench-recall")
@click.option(
    "--data",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="A folder of labelled questions; may be given several times. One that is not there is named and left out.",
)
@click.option("--variants", is_flag=True, help="Also the fusion variants that were tried.")
@click.option("--slips", is_flag=True, help="Also every question with a slip of the pen in each longer word.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_recall(folders: tuple[Path, ...], variants: bool, slips: bool, as_json: bool) -> None:
    """Measure recall@5, recall@10, nDCG@10, MRR, precision@5 and latency on labelled questions.

    Starts an embedded Postgres in a temporary folder and `memlane api` with the offline embedder, saves each set's
    memories over HTTP, one user for each of the set's, and asks its questions. The other rankings are computed here
    from the same vectors and terms. docs/recall.md says how to read the tables.
    """
    console = Console(stderr=True)
    sets: list[DataSet] = []
    for folder in folders:
        try:
            sets += load(folder)
        except BenchFailed as fault:
            console.print(f"Left out: {fault.message}.", style="yellow", highlight=False)
    if not sets:
        raise click.ClickException("no labelled questions to ask; name a folder that has them with --data")
    measured = _run(sets, RIVALS | (VARIANTS if variants else {}), console, slips=slips)
    if as_json:
        click.echo(json.dumps([_as_json(one) for one in measured]))
        return
    out = Console()
    for one in measured:
        out.print(_table(one))
        out.print(_cuts(one))


def _run(sets: list[DataSet], rivals: dict[str, Method], console: Console, *, slips: bool) -> list[Measured]:
    folder = Path(tempfile.mkdtemp(prefix="memlane-bench-"))
    postgres = EmbeddedPostgres(folder / "postgres")
    try:
        with console.status("Starting Postgres…"):
            asyncio.run(postgres.start())
        deployment = asyncio.run(prepare(postgres.dsn(), Seed(users=1, memories_of_each=1), on_memories=lambda _: None))
        with api_process(deployment, folder / "api.log"):
            return asyncio.run(_measure(deployment, sets, rivals, console, slips=slips))
    finally:
        asyncio.run(postgres.stop())
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(
    deployment: Deployment, sets: list[DataSet], rivals: dict[str, Method], console: Console, *, slips: bool
) -> list[Measured]:
    service = ServiceUnderTest(f"http://{HOST}:{deployment.port}", deployment.key)
    measured = []
    try:
        with progress(console) as bar:
            for data in sets:
                steps = sum(map(len, data.memories.values())) + len(data.questions)
                task = bar.add_task(data.name, total=steps)
                measured.append(await measure(service, data, rivals, partial(bar.advance, task), slips=slips))
    finally:
        await service.aclose()
    return measured


def _table(measured: Measured) -> Table:
    data = measured.data
    count = sum(map(len, data.memories.values()))
    table = Table(
        title=f"{data.name}: {count} memories of {len(data.memories)} users, {len(data.answerable)} questions",
        caption=f"Memlane over HTTP: p50 {measured.p50_ms:.1f} ms, p95 {measured.p95_ms:.1f} ms",
        title_justify="left",
    )
    for name in ("ranking", "recall@5", "recall@10", "nDCG@10", "MRR", "precision@5"):
        table.add_column(name, justify="left" if name == "ranking" else "right", no_wrap=True)
    for name, one in measured.methods.items():
        values = (one.recall_5, one.recall_10, one.ndcg_10, one.mrr, one.precision_5)
        table.add_row(name, *(f"{value:.3f}" for value in values))
    return table


def _cuts(measured: Measured) -> Table:
    table = Table(title=f"{len(measured.data.unanswerable)} questions that nothing answers", title_justify="left")
    for name in ("minScore", "recall@5", "relevant of what is answered", "silent where nothing answers"):
        table.add_column(name, justify="right")
    for cut in measured.cuts:
        silent = "" if cut.silent is None else f"{cut.silent:.3f}"
        table.add_row(f"{cut.min_score:g}", f"{cut.recall_5:.3f}", f"{cut.precision_5:.3f}", silent)
    return table


def _as_json(measured: Measured) -> dict[str, object]:
    return {
        "data": measured.data.name,
        "memories": sum(map(len, measured.data.memories.values())),
        "users": len(measured.data.memories),
        "questions": len(measured.data.questions),
        "rankings": {name: asdict(one) for name, one in measured.methods.items()},
        "min_scores": [asdict(cut) for cut in measured.cuts],
        "p50_ms": measured.p50_ms,
        "p95_ms": measured.p95_ms,
    }
