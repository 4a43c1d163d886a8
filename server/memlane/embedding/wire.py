"""The two protocols' routes and answers: pure. An answer is foreign input, and all of it is checked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx
import numpy as np

from memlane.embedding.endpoints import read_endpoint
from memlane.embedding.outcomes import EmbedFailed, WrongModel
from memlane.usecases.ports import Vector

MAX_DIMENSIONS = 4000
"""The limit of an index over pgvector's ``halfvec``."""

_BYTES_A_NUMBER = 32
_BYTES_AROUND = 64 * 1024
_MIN_NORM = 1e-12


def max_answer_bytes(texts: int, dimensions: int) -> int:
    """The longest answer that is read: a float64 takes at most 25 characters with its comma."""
    return _BYTES_AROUND + texts * dimensions * _BYTES_A_NUMBER


@dataclass(frozen=True, slots=True)
class Routes:
    """Where a service is asked.

    Attributes:
        info: TEI's description of itself.
        tei: TEI's embedding route.
        openai: The OpenAI-compatible embedding route.
    """

    info: httpx.URL
    tei: httpx.URL
    openai: httpx.URL

    @classmethod
    def of(cls, url: str) -> Self:
        """The routes under a base URL that may already name one of them; a query string is kept.

        Raises:
            Misconfigured: As `read_endpoint`.
        """
        base = read_endpoint(url)
        path = base.path.rstrip("/")
        if path.endswith("/embeddings"):
            openai = path
            root = path.removesuffix("/embeddings").removesuffix("/v1")
        elif path.endswith("/v1"):
            openai = f"{path}/embeddings"
            root = path.removesuffix("/v1")
        else:
            root = path.removesuffix("/embed")
            openai = f"{root}/v1/embeddings"
        paths = (f"{root}/info", f"{root}/embed", openai)
        info, tei, compatible = (base.copy_with(path=each, fragment=None) for each in paths)
        return cls(info, tei, compatible)


@dataclass(frozen=True, slots=True)
class TeiInfo:
    """What matters of TEI's ``/info``."""

    model_id: str
    max_batch: int | None

    def serves(self, model: str) -> bool:
        """Whether this is the model of that name; a model from a folder or without an organization may be."""
        if self.model_id.startswith(("/", ".")):
            return True
        return _short(self.model_id) == _short(model)


def _short(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].lower()


def read_tei_info(answer: Any) -> TeiInfo | None:
    """TEI's description of itself; None when the answer is something else."""
    if not isinstance(answer, dict):
        return None
    model_id = answer.get("model_id")
    if not isinstance(model_id, str) or not {"max_client_batch_size", "max_batch_tokens"} & answer.keys():
        return None
    batch = answer.get("max_client_batch_size")
    return TeiInfo(model_id, batch if isinstance(batch, int) and batch >= 1 else None)


def read_openai_data(answer: Any) -> list[Any]:
    """The embeddings of an OpenAI answer, in the order of their indexes.

    Raises:
        EmbedFailed: It is no such answer, or an index is missing or twice there.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise EmbedFailed("The embedder's answer has no list of embeddings.")
    try:
        by_index = {int(item.get("index", position)): item.get("embedding") for position, item in enumerate(data)}
        return [by_index[position] for position in range(len(data))]
    except (TypeError, ValueError, KeyError):
        raise EmbedFailed("The embedder's answer does not number its embeddings.") from None


def read_vectors(rows: Any, texts: int, dimensions: int) -> list[Vector]:
    """Check an answer's vectors and bring them to length 1.

    Args:
        rows: What should be a list of lists of numbers.
        texts: How many vectors are due.
        dimensions: Their length.

    Raises:
        WrongModel: They are vectors, but of another length.
        EmbedFailed: A wrong number of vectors, or one that is not finite, is zero, or is no vector.
    """
    if not isinstance(rows, list) or len(rows) != texts:
        raise EmbedFailed("The embedder answered another number of vectors than of texts.")
    return [_unit(row, dimensions) for row in rows]


def _unit(row: Sequence[Any], dimensions: int) -> Vector:
    if not isinstance(row, list) or not row or not {type(value) for value in row} <= {float, int}:
        raise EmbedFailed("The embedder answered something that is not a vector of numbers.")
    if len(row) != dimensions:
        message = f"The embedder answers vectors of {len(row)} numbers; {dimensions} are configured."
        raise WrongModel(message)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            vector = np.array(row, np.float64)
            norm = float(np.linalg.norm(vector))
    except OverflowError:  # an integer of hundreds of digits
        norm = math.inf
    if not math.isfinite(norm) or norm < _MIN_NORM:
        raise EmbedFailed("The embedder answered a vector that is zero or not finite.")
    unit: Vector = (vector / norm).tolist()
    return unit
