import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from memlane.domain.errors import EmbedderUnavailable
from memlane.embedding.local import LocalEmbedder
from memlane.embedding.outcomes import EmbedFailed

Encoded = Iterator[tuple[list[int], npt.NDArray[np.float32]]]


class GatedModel:
    """Records and holds each run until the gate opens; "boom" fails the run, "die" kills the thread."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.started = threading.Event()
        self.runs: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.runs.append(list(texts))
        self.started.set()
        self.gate.wait(10)
        if "boom" in texts:
            message = "boom: the text"
            raise ValueError(message)
        if "die" in texts:
            raise SystemExit
        yield list(range(len(texts))), np.array([[float(len(text))] for text in texts], np.float32)


@pytest.fixture(scope="module")
async def embedder() -> AsyncIterator[LocalEmbedder]:
    loaded = LocalEmbedder(time_limit=5.0, max_queue=64)
    yield loaded
    await loaded.aclose()


@pytest.fixture
def model(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> GatedModel:
    gated = GatedModel()
    monkeypatch.setattr(embedder, "_model", gated)
    return gated


async def occupied(embedder: LocalEmbedder, model: GatedModel, group: asyncio.TaskGroup) -> None:
    """Let a first run begin and hold it."""
    group.create_task(embedder.embed_query("first"))
    await asyncio.to_thread(model.started.wait, 5)


async def test_an_idle_embedder_runs_a_text_at_once_and_gathers_the_rest_into_one_run(
    embedder: LocalEmbedder, model: GatedModel
) -> None:
    async with asyncio.TaskGroup() as group:
        await occupied(embedder, model, group)
        tasks = [group.create_task(embedder.embed_query("x" * number)) for number in range(10)]
        await asyncio.sleep(0.01)
        model.gate.set()
    assert [len(run) for run in model.runs] == [1, 10]
    assert [task.result() for task in tasks] == [[float(number)] for number in range(10)]


async def test_a_run_takes_at_most_32_texts_and_about_1024_tokens(embedder: LocalEmbedder, model: GatedModel) -> None:
    async with asyncio.TaskGroup() as group:
        await occupied(embedder, model, group)
        for text in ["short"] * 40 + ["long " * 400] * 12:
            group.create_task(embedder.embed_query(text))
        await asyncio.sleep(0.01)
        model.gate.set()
    assert [len(run) for run in model.runs] == [1, 32, 8 + 3, 4, 4, 1]


async def test_at_the_bound_of_the_queue_a_call_is_busy_and_others_are_not_harmed(
    embedder: LocalEmbedder, model: GatedModel
) -> None:
    async with asyncio.TaskGroup() as group:
        await occupied(embedder, model, group)
        tasks = [group.create_task(embedder.embed_documents(["text"] * 32)) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(EmbedFailed) as raised:
            await embedder.embed_query("one too many")
        assert raised.value.outcome == "busy"
        model.gate.set()
    assert [len(task.result()) for task in tasks] == [32, 32]


async def test_a_long_call_waits_with_32_texts_at_a_time(embedder: LocalEmbedder, model: GatedModel) -> None:
    model.gate.set()
    assert len(await embedder.embed_documents(["text"] * 300)) == 300
    assert max(len(run) for run in model.runs) == 32


async def test_texts_of_a_caller_that_went_away_are_not_computed_and_free_their_places(
    embedder: LocalEmbedder, model: GatedModel
) -> None:
    async with asyncio.TaskGroup() as group:
        await occupied(embedder, model, group)
        leaving = [group.create_task(embedder.embed_documents(["bye"] * 32)) for _ in range(2)]
        await asyncio.sleep(0.01)
        for task in leaving:
            task.cancel()
        await asyncio.sleep(0.01)
        staying = group.create_task(embedder.embed_documents(["stay"] * 32))
        await asyncio.sleep(0.01)
        model.gate.set()
    assert len(staying.result()) == 32
    assert "bye" not in {text for run in model.runs for text in run}


async def test_an_error_in_a_run_fails_that_run_only_and_quotes_nothing(
    embedder: LocalEmbedder, model: GatedModel
) -> None:
    model.gate.set()
    with pytest.raises(EmbedderUnavailable, match="ValueError") as raised:
        await embedder.embed_query("boom")
    assert "the text" not in raised.value.message
    assert await embedder.embed_query("fine") == [4.0]


async def test_a_thread_that_dies_fails_who_waits_and_the_next_call_starts_it_again(
    embedder: LocalEmbedder, model: GatedModel
) -> None:
    async with asyncio.TaskGroup() as group:
        dying = group.create_task(outcome_of(embedder, "die"))
        await asyncio.to_thread(model.started.wait, 5)
        waiting = group.create_task(outcome_of(embedder, "waiting"))
        await asyncio.sleep(0.01)
        model.gate.set()
    assert dying.result() == waiting.result() == "error"
    assert await embedder.embed_query("fine") == [4.0]


async def outcome_of(embedder: LocalEmbedder, text: str) -> str:
    try:
        await embedder.embed_query(text)
    except EmbedFailed as error:
        return error.outcome
    return "ok"


async def test_a_call_over_its_time_limit_is_unavailable(
    embedder: LocalEmbedder, model: GatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "_time_limit", 0.05)
    with pytest.raises(EmbedFailed) as raised:
        await embedder.embed_query("slow")
    assert raised.value.outcome == "timeout"
    model.gate.set()


async def test_closing_fails_who_waits() -> None:
    embedder = LocalEmbedder()
    model = GatedModel()
    embedder._model = model  # type: ignore[assignment]
    running = asyncio.ensure_future(embedder.embed_query("running"))
    await asyncio.to_thread(model.started.wait, 5)
    waiting = asyncio.ensure_future(embedder.embed_query("waiting"))
    await asyncio.sleep(0.01)
    closing = asyncio.ensure_future(embedder.aclose())
    with pytest.raises(EmbedderUnavailable, match="closing"):
        await waiting
    model.gate.set()
    await closing
    assert await running == [7.0]


async def test_every_call_is_reported_with_its_outcome_seconds_and_texts() -> None:
    calls: list[tuple[str, float, int]] = []
    embedder = LocalEmbedder(on_call=lambda *call: calls.append(call), time_limit=10.0)
    await embedder.embed_documents(["a", "b"])
    await embedder.aclose()
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("late")
    assert [(outcome, texts) for outcome, _, texts in calls] == [("ok", 2), ("error", 1)]
    assert all(0 <= seconds < 10 for _, seconds, _ in calls)
