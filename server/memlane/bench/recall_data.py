"""Labelled questions over memories, in either of two layouts of JSON Lines.

- *memories.jsonl* (``id``, ``user``, ``content``) and *questions.jsonl* (``id``, ``user``, ``query``, ``relevant``: ids
  of memories; empty where nothing answers): the project's own set, in tests/data/recall.
- *observations.jsonl* and *turns.jsonl* (``id``, ``user``, ``content``, ``evidence``) with one *queries.jsonl*
  (``qid``, ``user``, ``query``, ``evidence``, ``evidence_in_observations``): a memory is relevant to a question when
  they share evidence. A question without evidence in a set is left out of it.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memlane.bench.deployment import BenchFailed

SLIPPED_MIN = 5
"""Shortest word that gets a slip."""
_EVIDENCE = {"observations": "evidence_in_observations", "turns": "evidence"}


@dataclass(frozen=True, slots=True)
class Question:
    """A question of one user, and the places of the memories of that user that answer it."""

    user: str
    query: str
    relevant: frozenset[int]


def misspelt(question: Question, chance: random.Random) -> Question:
    """The question with one slip in each word of five letters or more: one swapped, left out or put in."""
    words = [
        _slipped(word, chance) if len(word.strip("?.,!'")) >= SLIPPED_MIN else word for word in question.query.split()
    ]
    return replace(question, query=" ".join(words))


def _slipped(word: str, chance: random.Random) -> str:
    place = chance.randrange(1, len(word) - 2)
    slip = chance.randrange(3)
    if slip == 0:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if slip == 1:
        return word[:place] + word[place + 1 :]
    return word[:place] + chance.choice("aeiorst") + word[place:]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Memories by user, in order, and questions."""

    name: str
    memories: dict[str, list[str]]
    questions: list[Question]

    @property
    def answerable(self) -> list[Question]:
        """Those that some memory answers."""
        return [question for question in self.questions if question.relevant]

    @property
    def unanswerable(self) -> list[Question]:
        """Those that nothing answers."""
        return [question for question in self.questions if not question.relevant]


def load(folder: Path) -> list[DataSet]:
    """The data sets of a folder.

    Raises:
        BenchFailed: The folder is not there, or holds neither layout; the message says what to do.
    """
    if (folder / "questions.jsonl").exists():
        return [_own(folder)]
    found = [name for name in _EVIDENCE if (folder / f"{name}.jsonl").exists()]
    if not found or not (folder / "queries.jsonl").exists():
        raise BenchFailed(
            f"no labelled data in {folder}: it needs memories.jsonl and questions.jsonl, or observations.jsonl "
            "and queries.jsonl. Name another folder with --data"
        )
    return [_by_evidence(folder, name) for name in found]


def _own(folder: Path) -> DataSet:
    memories: dict[str, list[str]] = {}
    places: dict[str, int] = {}
    for row in _rows(folder / "memories.jsonl"):
        mine = memories.setdefault(row["user"], [])
        places[row["id"]] = len(mine)
        mine.append(row["content"])
    questions = [
        Question(row["user"], row["query"], frozenset(places[one] for one in row["relevant"]))
        for row in _rows(folder / "questions.jsonl")
    ]
    return DataSet(folder.name, memories, questions)


def _by_evidence(folder: Path, name: str) -> DataSet:
    memories: dict[str, list[str]] = {}
    evidence: dict[str, list[frozenset[str]]] = {}
    for row in _rows(folder / f"{name}.jsonl"):
        memories.setdefault(row["user"], []).append(row["content"])
        evidence.setdefault(row["user"], []).append(frozenset(row["evidence"]))
    questions = []
    for row in _rows(folder / "queries.jsonl"):
        wanted = frozenset(row[_EVIDENCE[name]])
        relevant = frozenset(place for place, has in enumerate(evidence[row["user"]]) if has & wanted)
        if relevant:
            questions.append(Question(row["user"], row["query"], relevant))
    return DataSet(name, memories, questions)


def _rows(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
