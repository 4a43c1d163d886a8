"""Every wrong value fails at render, with its path and what to write."""

import re
from pathlib import Path
from typing import Any

import pytest

from chart.cases import LEAST
from chart.helms import Helm
from chart.wrong_values import WRONG


def with_value(path: str, value: Any) -> dict[str, Any]:
    """The least values with one wrong: a value at its path, or a tree of values for a fault of several."""
    if isinstance(value, dict) and path.partition(".")[0] in value:
        return _merged(LEAST, value)
    tree = value
    for part in reversed(path.split(".")):
        tree = {part: tree}
    return _merged(LEAST, tree)


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {
        key: _merged(old[key], new[key]) if key in old and key in new else {**old, **new}[key] for key in {**old, **new}
    }


def names(said: str, path: str) -> bool:
    """Whether an error names a place: `a.b`, `/a/b`, or the parent with the key that it does not allow."""
    parts = re.split(r"[.\[]", path.replace("]", ""))
    parent, last = parts[:-1], parts[-1]
    whole = {path, ".".join(parts), "/" + "/".join(parts)}
    above = {".".join(parent) or "(root)", "/" + "/".join(parent), "at ''"}
    return any(one in said for one in whole) or (last in said and any(one in said for one in above))


def test_there_are_sixty_wrong_values_and_each_is_another() -> None:
    assert len(WRONG) >= 60
    assert len({(path, str(value)) for path, value, _ in WRONG}) == len(WRONG)


def test_the_values_around_them_are_right(any_helm: Helm, home: Path) -> None:
    assert any_helm.template(home, values=LEAST).code == 0


@pytest.mark.parametrize(
    ("path", "value", "help_"), WRONG, ids=[f"{path}={str(value)[:40]}" for path, value, _ in WRONG]
)
def test_a_wrong_value_fails_with_its_path_and_what_to_write(
    any_helm: Helm, home: Path, path: str, value: Any, help_: str
) -> None:
    run = any_helm.template(home, values=with_value(path, value))
    assert run.code == 1, "it was rendered"
    assert names(run.err, path), run.err
    said = re.sub(r"(?<=\d),(?=\d{3})", "", run.err)
    assert any(one in said for one in help_.split("|")), run.err
    assert "nil pointer" not in run.err
    assert len(run.err.splitlines()) < 12, "one fault is buried under others"


def test_several_wrong_values_are_told_at_once(any_helm: Helm, home: Path) -> None:
    run = any_helm.template(home, values={})
    for path in ("image.repository", "database.url", "redis.url", "license.token", "license.keys"):
        assert f"\n  {path}: " in run.err
