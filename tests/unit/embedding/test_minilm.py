import json
from pathlib import Path

import numpy as np
import pytest

from memlane.domain.errors import Misconfigured
from memlane.embedding import minilm

REFERENCES = json.loads((Path(__file__).parent / "reference_vectors.json").read_text(encoding="utf-8"))
"""Vectors of the fp32 model, computed in float64 from its published weights and its own tokenizer."""

# The first eight numbers of the int8 model for the first reference text.
STORED = [0.0246, -0.0297, -0.0084, 0.0757, -0.0095, -0.0205, -0.0056, 0.0329]


@pytest.fixture(scope="module")
def model() -> minilm.MiniLM:
    return minilm.MiniLM()


def embed(model: minilm.MiniLM, *texts: str) -> list[list[float]]:
    vectors: dict[int, list[float]] = {}
    for positions, rows in model.encode(texts):
        vectors |= dict(zip(positions, rows.tolist(), strict=True))
    return [vectors[position] for position in range(len(texts))]


@pytest.mark.parametrize("reference", REFERENCES, ids=[entry["text"][:20] for entry in REFERENCES])
def test_vectors_agree_with_the_fp32_reference(model: minilm.MiniLM, reference: dict[str, object]) -> None:
    [vector] = embed(model, str(reference["text"]))
    expected = np.array(reference["vector"])
    assert float(np.array(vector) @ expected) > 0.985
    assert np.abs(np.array(vector) - expected).max() < 0.04


def test_the_quantized_vectors_are_the_stored_ones(model: minilm.MiniLM) -> None:
    [vector] = embed(model, REFERENCES[0]["text"])
    assert vector[:8] == pytest.approx(STORED, abs=5e-3)


def test_meaning_orders_the_texts(model: minilm.MiniLM) -> None:
    query, same, near, far = np.array(
        embed(
            model,
            "Which editor theme does the user like?",
            "The user prefers dark mode in every editor.",
            "The user writes Rust in the evenings.",
            "Invoices are due within thirty days.",
        )
    )
    assert query @ same > query @ near > query @ far


def test_a_text_is_cut_at_256_tokens() -> None:
    ids = minilm.build_tokenizer().encode("tea " * 1_000).ids
    assert len(ids) == 256
    assert (ids[0], ids[-1]) == (101, 102)


def test_what_lies_beyond_the_cut_does_not_matter(model: minilm.MiniLM) -> None:
    one, other = embed(model, "tea " * 254 + "coffee", "tea " * 254 + "milk and sugar")
    assert one == other


def test_markers_in_a_text_are_read_as_text() -> None:
    tokenizer = minilm.build_tokenizer()
    for marker in ("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"):
        ids = tokenizer.encode(f"a {marker} b").ids
        assert not {0, 100, 101, 102, 103} & set(ids[1:-1])
    assert tokenizer.encode("<|endoftext|>").tokens[1:3] == ["<", "|"]


def test_padding_does_not_change_a_vector(model: minilm.MiniLM) -> None:
    alone = embed(model, "short")[0]
    beside = embed(model, "short", "a much longer text than the short one is, so that the short one is padded")[0]
    assert alone == pytest.approx(beside, abs=1e-5)


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "\u200d", "\ufeff", "x" * 100_000])
def test_a_degenerate_text_gives_a_finite_unit_vector(model: minilm.MiniLM, text: str) -> None:
    [vector] = embed(model, text)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_runs_are_bounded_in_texts_and_in_padded_tokens(model: minilm.MiniLM) -> None:
    shapes = [len(positions) for positions, _ in model.encode(["short"] * 40 + ["tea " * 300] * 10)]
    assert shapes == [32, 8, 4, 4, 2]


def test_another_model_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"another model")
    with pytest.raises(Misconfigured, match="SHA-256"):
        minilm.MiniLM(model_path=path)
    with pytest.raises(Misconfigured, match="missing"):
        minilm.MiniLM(model_path=tmp_path / "none.onnx")
