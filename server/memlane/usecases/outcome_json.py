"""A write's outcome as JSON, to be kept for a retry and read back as it was."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from memlane.domain.memory import Memory, Position, Similar, WriteOutcome

_TIMES = ("created_at", "updated_at", "invalidated_at", "recalled_at")


def outcome_to_json(outcome: WriteOutcome) -> dict[str, Any]:
    """Plain values only; times are written by the JSON encoder."""
    return asdict(outcome)


def outcome_from_json(kept: dict[str, Any]) -> WriteOutcome:
    """The inverse of `outcome_to_json`."""
    memory = dict(kept["memory"])
    for name in _TIMES:
        memory[name] = None if memory[name] is None else datetime.fromisoformat(memory[name])
    memory["source_thread_ids"] = tuple(memory["source_thread_ids"])
    return WriteOutcome(
        memory=Memory(**memory),
        position=Position(**kept["position"]),
        absorbed=kept["absorbed"],
        absorbed_by=kept["absorbed_by"],
        similar=tuple(Similar(**one) for one in kept["similar"]),
        retired_id=kept["retired_id"],
    )
