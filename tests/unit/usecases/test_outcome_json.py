from datetime import UTC, datetime

import orjson
import pytest

from memlane.domain.memory import Memory, Position, Similar, WriteOutcome
from memlane.usecases.outcome_json import outcome_from_json, outcome_to_json

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
MEMORY = Memory("m1", "topical", "user", "Likes 🦊 and \ud7ff.", ("a", "b"), NOW, NOW)


@pytest.mark.parametrize(
    "outcome",
    [
        WriteOutcome(MEMORY, Position("e", 1)),
        WriteOutcome(MEMORY, Position("e", 2**53), absorbed=True, absorbed_by="form"),
        WriteOutcome(MEMORY, Position("e", 3), similar=(Similar("m2", 0.1 + 0.2), Similar("m3", 1.0)), retired_id="m0"),
        WriteOutcome(Memory("m1", "episodic", "project", "x", (), NOW, NOW, NOW, NOW), Position("e", 4)),
    ],
)
def test_an_outcome_comes_back_from_json_as_it_was(outcome: WriteOutcome) -> None:
    assert outcome_from_json(orjson.loads(orjson.dumps(outcome_to_json(outcome)))) == outcome
