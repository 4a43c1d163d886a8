"""Arguments as models send them: JSON written inside strings is understood where it is safe."""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel

from memlane.rest.parsing import validated

M = TypeVar("M", bound=BaseModel)

FREE_TEXTS = frozenset({"content", "query", "id"})
"""Never decoded: what looks like JSON here may be what was meant."""
JSON_TEXT_MAX = 64 * 1024
"""Longest string that is tried as JSON, in characters: 100 thread ids fit."""


def parse_arguments(model: type[M], arguments: Mapping[str, Any] | None) -> M:
    """A tool's arguments through the model of the REST body.

    Raises:
        ValidationFailed: As REST does, with the path of each bad field.
    """
    known = model.model_fields
    read = {name: _read(value) if name in known and name not in FREE_TEXTS else value
            for name, value in (arguments or {}).items()}  # fmt: skip
    # Null in place of leaving out: of an optional field it can mean nothing else.
    left = {
        name: value
        for name, value in read.items()
        if value is not None or name not in known or known[name].is_required()
    }
    return validated(model, left)


def _read(value: Any) -> Any:
    """``"null"``, ``'["a"]'``, ``"5"`` and ``'"user"'`` as what they say; anything else as it is."""
    if not isinstance(value, str) or len(value) > JSON_TEXT_MAX:
        return value
    try:
        decoded = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return value if isinstance(decoded, dict) else decoded
