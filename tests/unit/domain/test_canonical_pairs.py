"""The labelled pairs: no two statements that must stay two are ever absorbed."""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from memlane.domain.canonical import canonical_form

ROOT = Path(__file__).parents[3]
OWN = ROOT / "tests" / "data" / "absorb_pairs.jsonl"
# Half of these ("held") were never looked at while a rule was written; the rest are "dev".
SPLIT = ROOT / "tests" / "data" / "absorb_pairs_split.jsonl"
# Pairs of the project that lie beside a checkout; not part of the repository.
OTHERS = ROOT.parent / "shared" / "data" / "absorb" / "pairs.jsonl"


class Pair(NamedTuple):
    id: str
    label: str
    type: str
    a: str
    b: str
    split: str = "dev"

    @property
    def absorbed(self) -> bool:
        return canonical_form(self.a) == canonical_form(self.b)


def read(path: Path) -> list[Pair]:
    return [Pair(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


OWN_PAIRS = read(OWN)
SPLIT_PAIRS = read(SPLIT)


def test_the_own_pairs_are_many_and_mostly_of_those_to_keep() -> None:
    labels = Counter(pair.label for pair in OWN_PAIRS)
    assert set(labels) == {"dup", "keep"}
    assert labels.total() >= 120
    assert labels["keep"] > labels["dup"]
    assert len({pair.id for pair in OWN_PAIRS}) == len(OWN_PAIRS)
    assert all(pair.a != pair.b for pair in OWN_PAIRS)


def test_the_split_pairs_are_many_of_many_kinds_and_half_held_out() -> None:
    assert len(SPLIT_PAIRS) >= 300
    assert len({pair.type for pair in SPLIT_PAIRS}) >= 25
    assert len({pair.id for pair in SPLIT_PAIRS}) == len(SPLIT_PAIRS)
    assert Counter(pair.split for pair in SPLIT_PAIRS)["held"] >= len(SPLIT_PAIRS) // 2 - 2
    assert all(pair.a != pair.b for pair in SPLIT_PAIRS)


@pytest.mark.parametrize("split", ["dev", "held"])
def test_of_either_half_two_thirds_of_the_duplicates_are_absorbed_and_nothing_else(split: str) -> None:
    pairs = [pair for pair in SPLIT_PAIRS if pair.split == split]
    duplicates = [pair for pair in pairs if pair.label == "dup"]
    assert [pair for pair in pairs if pair.label == "keep" and pair.absorbed] == []
    assert sum(pair.absorbed for pair in duplicates) >= 0.65 * len(duplicates)


@pytest.mark.parametrize("pair", [p for p in OWN_PAIRS if p.label == "keep"], ids=lambda pair: pair.id)
def test_two_statements_stay_two(pair: Pair) -> None:
    assert not pair.absorbed, (pair.a, pair.b, canonical_form(pair.a))


@pytest.mark.parametrize(
    "pair", [p for p in OWN_PAIRS if p.label == "dup" and p.type != "paraphrase"], ids=lambda pair: pair.id
)
def test_one_statement_in_two_forms_is_one(pair: Pair) -> None:
    assert canonical_form(pair.a) == canonical_form(pair.b)


@pytest.mark.skipif(not OTHERS.exists(), reason="the other labelled pairs are not beside this checkout")
def test_the_other_pairs_have_no_false_merge_and_two_thirds_of_the_duplicates_are_absorbed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs = read(OTHERS)
    duplicates = [pair for pair in pairs if pair.label == "dup"]
    absorbed = sum(pair.absorbed for pair in duplicates)
    with capsys.disabled():
        print(f" [{absorbed} of {len(duplicates)} duplicates absorbed]", end="")  # noqa: T201 - a figure to watch
    assert [pair for pair in pairs if pair.label == "keep" and pair.absorbed] == []
    assert absorbed >= 0.65 * len(duplicates)
