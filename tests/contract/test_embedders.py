"""What every embedder promises, on the offline model, on TEI and on an OpenAI-compatible service."""

import asyncio
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest

from memlane.domain.errors import EmbedderUnavailable, Misconfigured
from memlane.embedding.breaker import CircuitBreaker
from memlane.embedding.local import LocalEmbedder
from memlane.embedding.openai_compatible import OpenAICompatibleEmbedder
from memlane.usecases.ports import Embedder
from support.embedding_server import EmbeddingServer, Fault, Kind, shared_local_embedder

AWKWARD_TEXTS = [
    "",
    " \n\t",
    "\x00",
    "\ud800",
    "\u200d\ufe0f",
    "[CLS] [SEP] [MASK] [PAD]",
    "<|endoftext|>",
    "👍🏽",
    "猫は窓のそばで寝ています。",
    "שלום עולם",
    "e\u0301" * 300,
    "x" * 8192,
    "𒀀" * 8192,
    'TODO: (fix) "a/b AND',
]


def build(server: EmbeddingServer, **options: object) -> OpenAICompatibleEmbedder:
    settings: dict[str, object] = {
        "time_limit": 20.0,  # generous: the suite shares its processors
        "random_unit": lambda: 0.0,
        "breaker": CircuitBreaker(threshold=1_000),
    }
    return OpenAICompatibleEmbedder(server.url, server.model, server.dimensions, **settings | options)  # type: ignore[arg-type]


@pytest.fixture(params=["tei", "openai"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer(request.param) as running:
        yield running


@pytest.fixture(params=["local", "tei", "openai"])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    if request.param == "local":
        local = LocalEmbedder(time_limit=20.0)
        yield local
        await local.aclose()
        return
    async with EmbeddingServer(request.param) as running:
        remote = build(running)
        yield remote
        await remote.aclose()


class TestEveryEmbedder:
    async def test_vectors_come_in_order_and_equal_those_of_single_calls(self, embedder: Embedder) -> None:
        texts = [f"statement number {number} about a {thing}" for number in range(15) for thing in ("cat", "train")]
        texts += texts[:5]
        together = await embedder.embed_documents(texts)
        assert len(together) == len(texts)
        for position in (0, 17, 34):
            [alone] = await embedder.embed_documents([texts[position]])
            assert alone == pytest.approx(together[position], abs=1e-4)

    async def test_a_vector_has_the_dimension_of_the_space_and_length_one(self, embedder: Embedder) -> None:
        vectors = await embedder.embed_documents(AWKWARD_TEXTS)
        vectors.append(await embedder.embed_query("what does the user drink?"))
        for vector in vectors:
            assert len(vector) == embedder.space.dimensions
            assert np.isfinite(vector).all()
            assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
            assert isinstance(vector[0], float)

    async def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert await embedder.embed_documents([]) == []

    async def test_a_query_is_nearest_to_the_document_that_answers_it(self, embedder: Embedder) -> None:
        documents = await embedder.embed_documents(
            [
                "The user drinks green tea in the morning.",
                "Deploys happen on Tuesdays.",
                "The cat is called Miso.",
            ]
        )
        query = await embedder.embed_query("When do we release to production?")
        assert int(np.argmax(np.array(documents) @ np.array(query))) == 1

    async def test_close_similarity_is_a_cosine(self, embedder: Embedder) -> None:
        assert 0 < embedder.close_similarity < 1

    async def test_a_probe_of_a_working_embedder_passes(self, embedder: Embedder) -> None:
        await embedder.probe()

    async def test_many_callers_at_once_each_get_their_own(self, embedder: Embedder) -> None:
        texts = [f"caller {number} likes the number {number}" for number in range(24)]
        answers = await asyncio.gather(*(embedder.embed_query(text) for text in texts))
        expected = await embedder.embed_documents(texts)
        for answer, own in zip(answers, expected, strict=True):
            assert answer == pytest.approx(own, abs=1e-4)

    async def test_a_caller_that_goes_away_does_not_harm_the_others(self, embedder: Embedder) -> None:
        async with asyncio.TaskGroup() as group:
            leaving = [group.create_task(embedder.embed_documents(["bye"] * 20)) for _ in range(4)]
            staying = group.create_task(embedder.embed_query("still here"))
            await asyncio.sleep(0.002)
            for task in leaving:
                task.cancel()
        assert len(staying.result()) == embedder.space.dimensions

    async def test_after_closing_every_call_is_unavailable(self, embedder: Embedder) -> None:
        await embedder.aclose()
        await embedder.aclose()
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed_query("too late")


FAULTS = [
    Fault.DOWN,
    Fault.STATUS_429,
    Fault.STATUS_500,
    Fault.STATUS_401,
    Fault.WRONG_DIMENSION,
    Fault.WRONG_COUNT,
    Fault.NAN,
    Fault.INFINITE,
    Fault.ZERO,
    Fault.TEXT,
    Fault.RUBBISH,
    Fault.REDIRECT,
    Fault.HUGE,
    Fault.COMPRESSED,
]


class TestEveryRemoteEmbedder:
    @pytest.mark.parametrize("asked_before", [True, False])
    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_fault_makes_it_unavailable_and_the_next_call_recovers(
        self, server: EmbeddingServer, fault: Fault, *, asked_before: bool
    ) -> None:
        embedder = build(server)
        if asked_before:
            await embedder.probe()
        server.fault = fault
        with pytest.raises(EmbedderUnavailable) as raised:
            await embedder.embed_documents(["a text that must not be quoted"])
        assert "quoted" not in raised.value.message
        server.fault = Fault.NONE
        assert len(await embedder.embed_query("back again")) == server.dimensions
        await embedder.aclose()

    async def test_a_slow_service_is_given_up_at_the_time_limit(self, server: EmbeddingServer) -> None:
        embedder = build(server, time_limit=0.3)
        server.fault = Fault.SLOW
        started = time.perf_counter()
        with pytest.raises(EmbedderUnavailable, match=r"0\.3 s"):
            await embedder.embed_documents(["text"] * 70)
        assert time.perf_counter() - started < 2
        await embedder.aclose()

    async def test_a_wrong_dimension_at_the_probe_is_a_misconfiguration(self, server: EmbeddingServer) -> None:
        embedder = OpenAICompatibleEmbedder(server.url, server.model, 512, time_limit=20.0)
        with pytest.raises(Misconfigured, match="384 numbers; 512"):
            await embedder.probe()
        await embedder.aclose()

    async def test_a_service_that_is_down_is_no_misconfiguration(self, server: EmbeddingServer) -> None:
        embedder = build(server)
        server.fault = Fault.DOWN
        with pytest.raises(EmbedderUnavailable):
            await embedder.probe()
        server.fault = Fault.NONE
        await embedder.probe()
        await embedder.aclose()

    @pytest.mark.parametrize("fault", [Fault.STATUS_429, Fault.STATUS_500])
    async def test_a_passing_fault_is_retried(self, server: EmbeddingServer, fault: Fault) -> None:
        embedder = build(server)
        server.inject(fault, times=2)
        assert await embedder.embed_query("third time lucky")
        await embedder.aclose()

    @pytest.mark.parametrize("fault", [Fault.REFUSE_400, Fault.REFUSE_413, Fault.REFUSE_422])
    async def test_a_refused_batch_is_split_and_a_refused_text_is_cut(
        self, server: EmbeddingServer, fault: Fault
    ) -> None:
        embedder = build(server)
        server.fault = fault
        texts = [f"text {number}" for number in range(7)] + ["long words " * 300]
        vectors = await embedder.embed_documents(texts)
        expected = await shared_local_embedder().embed_documents(texts[:7])
        for vector, own in zip(vectors, expected, strict=False):
            assert vector == pytest.approx(own, abs=1e-4)
        assert len(vectors) == 8
        await embedder.aclose()

    async def test_what_is_refused_however_short_is_unavailable(self, server: EmbeddingServer) -> None:
        embedder = build(server)
        server.refuse_characters = 3
        server.fault = Fault.REFUSE_422
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed_documents(["word " * 1_000] * 32)
        assert len(server.calls) <= 12
        await embedder.aclose()

    async def test_a_service_that_keeps_failing_is_left_alone(self, server: EmbeddingServer) -> None:
        embedder = build(server, breaker=CircuitBreaker(threshold=3, open_seconds=0.2))
        await embedder.probe()
        server.fault = Fault.STATUS_500
        for _ in range(5):
            with pytest.raises(EmbedderUnavailable):
                await embedder.embed_query("anyone?")
        asked = len(server.calls)
        server.fault = Fault.NONE
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed_query("anyone?")
        assert len(server.calls) == asked
        await asyncio.sleep(0.25)
        assert await embedder.embed_query("anyone?")
        await embedder.aclose()

    @pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/embeddings", "/embed"])
    async def test_every_spelling_of_the_url_works(self, server: EmbeddingServer, path: str) -> None:
        embedder = OpenAICompatibleEmbedder(server.url + path, server.model, server.dimensions, time_limit=20.0)
        await embedder.probe()
        spoken = "/embed" if server.kind == "tei" else "/v1/embeddings"
        assert server.calls[-1].path == spoken
        await embedder.aclose()

    async def test_the_key_is_sent_and_shown_nowhere(self, server: EmbeddingServer) -> None:
        embedder = build(server, api_key="s3cret-key")
        server.fault = Fault.STATUS_401
        with pytest.raises(EmbedderUnavailable) as raised:
            await embedder.probe()
        assert server.calls[-1].headers["authorization"] == "Bearer s3cret-key"
        assert "s3cret" not in f"{embedder!r} {raised.value!r} {raised.value.message} {embedder.space}"
        assert raised.value.__cause__ is None
        await embedder.aclose()

    async def test_a_call_of_many_texts_goes_out_in_batches(self, server: EmbeddingServer) -> None:
        embedder = build(server)
        assert len(await embedder.embed_documents(["short"] * 70)) == 70
        sizes = sorted(len(call.texts) for call in server.calls if call.texts)
        assert sizes == [6, 32, 32]
        await embedder.aclose()


class TestPrefixes:
    """What a model's card wants before a query and before a document reaches the wire, the one never as the other."""

    PASSAGES = "Represent this sentence for searching relevant passages: "

    @pytest.mark.parametrize("kind", ["tei", "openai"])
    @pytest.mark.parametrize(
        ("model", "query", "document"),
        [
            ("intfloat/multilingual-e5-small", "query: ", "passage: "),
            ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
            ("BAAI/bge-small-en-v1.5", PASSAGES, ""),
            ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ],
    )
    async def test_a_query_and_a_document_are_sent_with_the_prefix_of_their_own(
        self, kind: Kind, model: str, query: str, document: str
    ) -> None:
        async with EmbeddingServer(kind, model=model) as server:
            embedder = build(server)
            await embedder.embed_query("Who drinks tea?")
            await embedder.embed_documents(["Ada drinks tea.", "Bo does not."])
            await embedder.aclose()
        inputs = (
            [f"{query}Who drinks tea?"],
            [f"{document}Ada drinks tea.", f"{document}Bo does not."],
        )
        sent = [call.body for call in server.calls if call.texts]
        if kind == "tei":
            assert sent == [{"inputs": each, "truncate": True, "normalize": True} for each in inputs]
        else:
            assert sent == [{"model": model, "input": each, "dimensions": 384} for each in inputs]


class TestTei:
    async def test_it_is_asked_to_truncate_and_normalise_and_never_for_dimensions(self) -> None:
        async with EmbeddingServer("tei") as server:
            embedder = build(server)
            await embedder.embed_query("hello")
            assert server.calls[-1].body == {"inputs": ["hello"], "truncate": True, "normalize": True}
            await embedder.aclose()

    async def test_another_model_than_configured_is_a_misconfiguration(self) -> None:
        async with EmbeddingServer("tei", model="BAAI/bge-small-en-v1.5") as server:
            embedder = OpenAICompatibleEmbedder(server.url, "intfloat/e5-small-v2", 384, time_limit=20.0)
            with pytest.raises(Misconfigured, match=r"bge-small-en-v1\.5"):
                await embedder.probe()
            with pytest.raises(EmbedderUnavailable):
                await embedder.embed_query("hello")
            await embedder.aclose()

    async def test_info_is_not_asked_again_once_an_embedding_succeeded(self) -> None:
        async with EmbeddingServer("tei") as server:
            embedder = build(server)
            await asyncio.gather(*(embedder.embed_query("hello") for _ in range(5)))
            await embedder.embed_query("hello")
            asked = len(server.calls)
            await embedder.embed_query("hello")
            assert len(server.calls) == asked + 1
            await embedder.aclose()


class TestOpenAI:
    async def test_it_is_sent_the_dimensions(self) -> None:
        async with EmbeddingServer("openai") as server:
            embedder = build(server)
            await embedder.embed_query("hello")
            assert server.calls[-1].body == {"model": server.model, "input": ["hello"], "dimensions": 384}
            await embedder.aclose()

    async def test_a_model_of_one_length_is_asked_without_dimensions(self) -> None:
        async with EmbeddingServer("openai", takes_dimensions=False) as server:
            embedder = build(server)
            await embedder.embed_query("hello")
            await embedder.embed_query("hello")
            assert ["dimensions" in call.body for call in server.calls if call.texts] == [True, False, False]
            await embedder.aclose()
