"""The models that the settings name: embedder, judge, reranker."""

from memlane.config import Settings
from memlane.domain.errors import Misconfigured
from memlane.embedding import minilm
from memlane.embedding.endpoints import read_endpoint
from memlane.embedding.judges import ChatJudge, EntailmentJudge
from memlane.embedding.local import LocalEmbedder
from memlane.embedding.openai_compatible import OpenAICompatibleEmbedder
from memlane.embedding.reranker import TeiReranker
from memlane.observability import metrics
from memlane.usecases.ports import Embedder, Judge, Reranker


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name: `local://` is the offline model.

    Raises:
        Misconfigured: The offline model has other dimensions, or its file is not the pinned one.
    """
    return _embedder(
        settings.embeddings_url,
        settings.embedding_model,
        settings.embedding_dimensions,
        settings.embeddings_api_key,
    )


def make_earlier_embedder(settings: Settings) -> Embedder | None:
    """The embedder before a change of models, while it is still configured. Raises as `make_embedder`."""
    if settings.earlier_embeddings_url is None:
        return None
    return _embedder(
        settings.earlier_embeddings_url,
        settings.earlier_embedding_model,
        settings.earlier_embedding_dimensions,
        settings.earlier_embeddings_api_key,
    )


def check_embeddings_url(url: str) -> None:
    """Whether there is an embedder of this URL.

    Raises:
        Misconfigured: It is neither `local://` nor what `read_endpoint` takes.
    """
    if not _is_offline(url):
        read_endpoint(url)


def check_dimensions(url: str, dimensions: int) -> None:
    """Whether the embedder of this URL can have so many dimensions; of a service only it can tell.

    Raises:
        Misconfigured: The offline model has others.
    """
    if _is_offline(url) and dimensions != minilm.DIMENSIONS:
        raise Misconfigured(f"must be {minilm.DIMENSIONS} for the offline model of local://")


def _is_offline(url: str) -> bool:
    return url.startswith("local:")


def _embedder(url: str, model: str, dimensions: int, api_key: str | None) -> Embedder:
    check_dimensions(url, dimensions)
    if _is_offline(url):
        return LocalEmbedder(on_call=metrics.observe_embedding)
    return OpenAICompatibleEmbedder(url, model, dimensions, api_key=api_key, on_call=metrics.observe_embedding)


def make_judge(settings: Settings) -> Judge | None:
    """The judge that the settings name; none by default.

    Raises:
        Misconfigured: Its URL or key cannot be right.
    """

    def on_fault() -> None:
        metrics.MODEL_FAULTS.labels("judge").inc()

    if settings.judge == "entailment":
        return EntailmentJudge(
            settings.judge_url, bound=settings.judge_bound, api_key=settings.judge_api_key, on_fault=on_fault
        )
    if settings.judge == "chat":
        return ChatJudge(settings.judge_url, settings.judge_model, api_key=settings.judge_api_key, on_fault=on_fault)
    return None


def make_reranker(settings: Settings) -> Reranker | None:
    """The reranker that the settings name; none by default. Raises as `make_judge`."""
    if settings.reranker_url is None:
        return None
    return TeiReranker(
        settings.reranker_url,
        api_key=settings.reranker_api_key,
        on_fault=lambda: metrics.MODEL_FAULTS.labels("reranker").inc(),
    )
