"""The recall benchmark counts as it says, and the own set's figures stand."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memlane.bench.deployment import BenchFailed
from memlane.bench.recall_data import DataSet, Question, load, misspelt
from memlane.bench.recall_rankings import Asked, Channel, best, cosine, coverage, figures, texts_of
from memlane.usecases.recall import MIN_SCORE_DEFAULT

OWN = Path(__file__).parents[2] / "data" / "recall"


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "memlane", "bench-recall", "--data", str(OWN), "--data", "/nowhere", "--json"],
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "no labelled data in /nowhere" in " ".join(done.stderr.decode().split())
    (found,) = json.loads(done.stdout)
    return dict(found)


def test_over_http_the_own_set_is_recalled_at_least_as_well_as_by_any_rival(run: dict[str, Any]) -> None:
    served = run["rankings"]["memlane, over HTTP"]
    assert served["recall_10"] >= 0.97
    assert served["ndcg_10"] >= 0.86
    for rival in ("lexical only", "rank fusion, k 60"):
        for name in ("recall_5", "recall_10", "ndcg_10", "mrr"):
            assert served[name] >= run["rankings"][rival][name]
    # Dense alone is strong on short questions in other words; the fusion may cost it no more than this.
    assert served["ndcg_10"] >= run["rankings"]["dense only"]["ndcg_10"] - 0.01


def test_a_least_score_silences_half_of_what_nothing_answers(run: dict[str, Any]) -> None:
    cuts = {cut["min_score"]: cut for cut in run["min_scores"]}
    cut = cuts[MIN_SCORE_DEFAULT]
    assert cut["silent"] >= 0.5
    assert cut["recall_5"] >= 0.8
    assert cut["precision_5"] >= 2 * run["rankings"]["memlane, over HTTP"]["precision_5"]
    assert [cut["recall_5"] for cut in run["min_scores"]] == sorted(
        (cut["recall_5"] for cut in run["min_scores"]), reverse=True
    )


def test_the_own_set_is_large_and_has_other_scripts_and_unanswerable_questions() -> None:
    (data,) = load(OWN)
    memories = [content for contents in data.memories.values() for content in contents]
    assert len(memories) >= 300
    assert len(data.answerable) >= 200
    assert len(data.unanswerable) >= 20
    assert len(data.memories) >= 8
    assert sum(not content.isascii() for content in memories) >= 20


def test_the_figures_of_a_ranking_by_hand() -> None:
    questions = [Question("u", "q", frozenset({1, 9})), Question("u", "r", frozenset({0}))]
    found = figures([[5, 1, 2, 3, 4, 6, 7, 9], [0]], questions)
    assert found.recall_5 == pytest.approx((0.5 + 1) / 2)
    assert found.recall_10 == 1
    assert found.mrr == pytest.approx((0.5 + 1) / 2)
    assert found.precision_5 == pytest.approx((0.2 + 0.2) / 2)
    gain = (1 / np.log2(3) + 1 / np.log2(9)) / (1 + 1 / np.log2(3))
    assert found.ndcg_10 == pytest.approx((gain + 1) / 2)


def test_a_rivals_ranking_uses_the_same_terms_and_vectors() -> None:
    channel = Channel.of(["Likes green tea.", "Owns a boat."], np.array([[1.0, 0.0], [0.0, 1.0]]))
    asked = Asked(Question("u", "tea", frozenset({0})), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert best(cosine(channel, asked.whole, centred=False)) == [1, 0]
    assert best(coverage(channel, asked.terms, unseen=1)) == [0, 1]


def test_a_set_by_evidence_leaves_out_what_it_has_no_evidence_of(tmp_path: Path) -> None:
    rows = [{"id": "a", "user": "u", "content": "x", "evidence": ["D1", "D2"]}]
    (tmp_path / "observations.jsonl").write_text("\n".join(map(json.dumps, rows)))
    queries = [
        {"qid": "1", "user": "u", "query": "?", "evidence": ["D2", "D3"], "evidence_in_observations": ["D2"]},
        {"qid": "2", "user": "u", "query": "?", "evidence": ["D3"], "evidence_in_observations": []},
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    assert load(tmp_path) == [DataSet("observations", {"u": ["x"]}, [Question("u", "?", frozenset({0}))])]


def test_a_slip_changes_each_longer_word_once_and_the_same_way_in_every_run() -> None:
    question = Question("u", "When did the gardener plant tulips?", frozenset({1}))
    slipped, again = (misspelt(question, random.Random(1)) for _ in range(2))  # noqa: S311 - no secret
    assert slipped == again
    pairs = list(zip(question.query.split(), slipped.query.split(), strict=True))
    assert [one for one, other in pairs if one == other] == ["When", "did", "the"]
    assert all(abs(len(one) - len(other)) <= 1 for one, other in pairs)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match=r"no labelled data in .*--data"):
        load(tmp_path)


def test_a_question_with_a_name_is_embedded_twice() -> None:
    assert texts_of(Question("u", "When did Ana move to the sea?", frozenset())) == [
        "When did Ana move to the sea?",
        "When did move to the sea?",
    ]
