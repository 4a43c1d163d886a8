"""README's table of the chart's values, made from values.yaml: `python -m chart.value_table` writes it anew."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from chart.helms import CHART

BEGIN, END = "<!-- values: made by `make chart-docs` -->", "<!-- end of values -->"


@dataclass(frozen=True, slots=True)
class Value:
    """One line of the table."""

    path: str
    default: str
    meaning: str


def values() -> list[Value]:
    """Every value with its default and the comment above it."""
    text = (CHART / "values.yaml").read_text()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return list(_walk(root, "", text.splitlines()))


def _walk(node: yaml.MappingNode, above: str, lines: list[str]) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{above}.{key.value}" if above else key.value
        one_line = value.start_mark.line == key.start_mark.line
        if isinstance(value, yaml.MappingNode) and not one_line and key.value != "resources":
            yield from _walk(value, path, lines)
            continue
        loaded = yaml.SafeLoader("")
        default = json.dumps(loaded.construct_object(value, deep=True))  # type: ignore[no-untyped-call]
        yield Value(path, default, _comment(lines, key.start_mark.line))


def _comment(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line > 0 and lines[line - 1].strip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip().removeprefix("#").strip())
    return " ".join(found)


def table() -> str:
    """The table in Markdown."""
    rows = [f"| `{one.path}` | `{one.default}` | {one.meaning.replace('|', chr(92) + '|')} |" for one in values()]
    return "\n".join([BEGIN, "", "| value | default | meaning |", "|---|---|---|", *rows, "", END])


def readme() -> str:
    """README.md with the present table."""
    text = (CHART / "README.md").read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + table() + after


if __name__ == "__main__":
    (CHART / "README.md").write_text(readme())
    sys.stdout.write("charts/memlane/README.md has the present values.\n")
