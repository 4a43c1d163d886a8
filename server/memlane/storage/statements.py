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
