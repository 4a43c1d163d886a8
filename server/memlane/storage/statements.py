"""The named SQL statements of `queries/*.sql`; each file pastes into psql as it is."""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """Every statement by its name.

    Raises:
        ValueError: Two statements bear one name.
    """
    found: dict[str, str] = {}
    for file in sorted(files("memlane.storage").joinpath("queries").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"two statements are named {name}")
            found[name] = text.strip().rstrip(";")
    return found


def statement(name: str) -> str:
    """One statement by its name."""
    return statements()[name]


@cache
def statement_for_space(name: str, space_id: int, dimensions: int) -> str:
    """A statement of queries/large.sql for one embedding space: both are numbers of our own, never a caller's text.

    Args:
        name: The statement's name.
        space_id: The space.
        dimensions: The length of its vectors.
    """
    text = statement(name).replace("halfvec(384)", f"halfvec({int(dimensions)})")
    return re.sub(r"\bspace_id = 0\b", f"space_id = {int(space_id)}", text).replace(
        "memories_near_0", f"memories_near_{int(space_id)}"
    )
