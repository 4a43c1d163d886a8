"""values.yaml, its schema, README and Chart.yaml say the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from chart.helms import CHART, Helm
from chart.value_table import readme, values
from memlane import __version__

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_readmes_table_is_made_from_the_values() -> None:
    assert (CHART / "README.md").read_text() == readme(), "run `make chart-docs`"


def test_every_value_says_what_it_means() -> None:
    assert len(values()) > 150
    assert [one.path for one in values() if len(one.meaning) < 8] == []


def _pairs(schema: dict[str, Any], node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any], Any]]:
    yield path, schema, node
    if isinstance(node, dict) and "properties" in schema:
        for key in schema["properties"].keys() | node.keys():
            below = schema["properties"].get(key, {"missing": True})
            yield from _pairs(below, node.get(key, KeyError), f"{path}.{key}")


def test_the_schema_knows_each_value_and_no_other() -> None:
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, schema, node in _pairs(SCHEMA, found):
        assert "missing" not in schema, path
        assert node is not KeyError, path


def test_the_schema_is_strict_everywhere_but_in_global() -> None:
    loose = []

    def look(node: Any, path: str) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object" and "additionalProperties" not in node:
                loose.append(path)
            for key, value in node.items():
                look(value, f"{path}/{key}")
        elif isinstance(node, list):
            for place, value in enumerate(node):
                look(value, f"{path}/{place}")

    look(SCHEMA, "")
    affinity = [f"/$defs/affinity/properties/{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")]
    expressions = "/$defs/selector/properties/matchExpressions/items"
    assert sorted(loose) == sorted(["/properties/global", expressions, *affinity])


def test_the_charts_version_of_the_program_is_this_one() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    assert chart["kubeVersion"] == ">=1.28.0-0"


def test_an_older_kubernetes_is_refused(any_helm: Helm, home: Path) -> None:
    run = any_helm.template(home, CHART / "examples" / "quickstart.yaml", kube="1.27.9")
    assert run.code == 1
    assert ">=1.28.0-0" in run.err


def test_the_linter_has_nothing_to_say(any_helm: Helm, home: Path) -> None:
    for example in sorted((CHART / "examples").glob("*.yaml")):
        run = any_helm.run("lint", "--strict", str(CHART), "-f", str(example), home=home)
        assert run.code == 0, run.out


def test_the_packed_chart_renders_as_the_folder_does(any_helm: Helm, home: Path, tmp_path: Path) -> None:
    run = any_helm.run("package", str(CHART), "--destination", str(tmp_path), home=home)
    assert run.code == 0, run.err
    (packed,) = tmp_path.glob("memlane-*.tgz")
    example = CHART / "examples" / "production.yaml"
    assert any_helm.template(home, example, chart=packed).out == any_helm.template(home, example).out
