"""The labelled pairs: no two statements that must stay two are ever absorbed."""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from memlane.domain.canonical import canonical_form

ROOT = Path(__file__).parents[3]
OWN = ROOT / "tests" / "data" / "absorb_pairs.jsonl"
# Pairs of the project that lie beside a checkout; not part of the repository.
OTHERS = ROOT.parent / "shared" / "data" / "absorb" / "pairs.jsonl"


class Pair(NamedTuple):
    id: str
    label: str
    type: str
    a: str
    b: str

    @property
    def absorbed(self) -> bool:
        return canonical_form(self.a) == canonical_form(self.b)


def read(path: Path) -> list[Pair]:
    return [Pair(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


OWN_PAIRS = read(OWN)


def test_the_own_pairs_are_many_and_mostly_of_those_to_keep() -> None:
    labels = Counter(pair.label for pair in OWN_PAIRS)
    assert set(labels) == {"dup", "keep"}
    assert labels.total() >= 120
    assert labels["keep"] > labels["dup"]
    assert len({pair.id for pair in OWN_PAIRS}) == len(OWN_PAIRS)
    assert all(pair.a != pair.b for pair in OWN_PAIRS)


@pytest.mark.parametrize("pair", [p for p in OWN_PAIRS if p.label == "keep"], ids=lambda pair: pair.id)
def test_two_statements_stay_two(pair: Pair) -> None:
    assert not pair.absorbed, (pair.a, pair.b, canonical_form(pair.a))


@pytest.mark.parametrize(
    "pair", [p for p in OWN_PAIRS if p.label == "dup" and p.type != "paraphrase"], ids=lambda pair: pair.id
)
def test_one_statement_in_two_forms_is_one(pair: Pair) -> None:
    assert canonical_form(pair.a) == canonical_form(pair.b)


@pytest.mark.skipif(not OTHERS.exists(), reason="the other labelled pairs are not beside this checkout")
def test_the_other_pairs_have_no_false_merge_and_half_of_the_duplicates_are_absorbed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs = read(OTHERS)
    duplicates = [pair for pair in pairs if pair.label == "dup"]
    absorbed = sum(pair.absorbed for pair in duplicates)
    with capsys.disabled():
        print(f" [{absorbed} of {len(duplicates)} duplicates absorbed]", end="")  # noqa: T201 - a figure to watch
    assert [pair for pair in pairs if pair.label == "keep" and pair.absorbed] == []
    assert absorbed >= len(duplicates) // 2
