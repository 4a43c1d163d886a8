"""Alert rules and dashboard: real PromQL, on metrics and labels that the program has; each alert is explained."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import promql_parser
import pytest
import yaml

from chart.cases import LEAST
from chart.helms import CHART, ROOT, Helm
from chart.manifests import of_kind, read
from memlane.domain.errors import MemlaneError
from memlane.domain.stream import Refusal
from memlane.observability.metrics import REGISTRY

RULES = [
    rule for group in yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_THE_TARGET = {"job", "instance", "namespace", "pod", "le", "__name__"}
"""Labels that Prometheus adds, or that every histogram has."""


def known() -> dict[str, set[str]]:
    """Every series that a process has, with its labels."""
    found = {"up": set[str]()}
    for family in REGISTRY.collect():
        collector = REGISTRY._names_to_collectors.get(family.name) or REGISTRY._names_to_collectors.get(
            f"{family.name}_total"
        )
        labels = set(getattr(collector, "_labelnames", ()))
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        found |= {family.name + ending: labels for ending in endings}
    return found


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The series of an expression, each with the labels that it is chosen by."""
    found: list[tuple[str, set[str]]] = []

    def visit(node: Any) -> bool:
        chosen = node.vector_selector if isinstance(node, promql_parser.MatrixSelector) else node
        if isinstance(chosen, promql_parser.VectorSelector):
            found.append((chosen.name or "", {one.name for one in chosen.matchers.matchers}))
        return True

    promql_parser.walk(promql_parser.parse(expression.replace("$__rate_interval", "5m")), visit)
    yield from found


EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in RULES] + [
    (f"{panel['title']} {target['refId']}", target["expr"]) for panel in PANELS for target in panel["targets"]
]


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_an_expression_reads_series_that_exist(title: str, expression: str) -> None:
    series = known()
    read_by = list(selectors(expression))
    assert read_by, title
    for name, labels in read_by:
        assert name in series, f"{title}: no series {name}"
        assert labels <= series[name] | OF_THE_TARGET, f"{title}: {name} has no label {labels - series[name]}"
    grouped = {word.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for word in group.split(",")}
    labelled = set().union(*(series[name] for name, _ in read_by)) | OF_THE_TARGET
    assert grouped <= labelled, f"{title}: nothing has the label {grouped - labelled}"


def test_the_check_finds_a_series_that_does_not_exist() -> None:
    assert {name for name, _ in selectors("rate(memlane_none_total[5m]) > 1")} == {"memlane_none_total"}
    assert "memlane_none_total" not in known()
    assert {"memlane_http_requests_total", "memlane_http_request_seconds_bucket"} <= known().keys()


def test_every_metric_of_the_program_is_watched() -> None:
    """On the dashboard or by an alert: what nobody looks at need not be measured."""
    watched = {name for _, expression in EXPRESSIONS for name, _ in selectors(expression)}
    families = {family.name for family in REGISTRY.collect() if family.name.startswith("memlane_")}
    stems = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in watched}
    unwatched = {
        "memlane_embedder_texts",  # a rate of it is the load of the model, for sizing
        "memlane_stream_channels",
        "memlane_stream_held_upgrades",
        "memlane_stream_ended",
        "memlane_hints_dropped",
    }
    assert families - stems - unwatched == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_the_docs_say_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description"}
    docs = (ROOT / "docs/operations.md").read_text()
    assert f"| `{rule['alert']}` |" in docs


def test_the_docs_explain_no_alert_that_does_not_exist() -> None:
    docs = (ROOT / "docs/operations.md").read_text()
    assert sorted(re.findall(r"^\| `(Memlane\w+)` \|", docs, re.MULTILINE)) == sorted(rule["alert"] for rule in RULES)


def test_the_codes_and_labels_of_the_alerts_are_the_programs() -> None:
    codes = {kind.code for kind in _every_error()}
    named = {
        code for rule in RULES for code in re.findall(r'code=~"([^"]+)"', rule["expr"]) for code in code.split("|")
    }
    assert named
    assert named <= codes


def test_the_reasons_that_an_alert_passes_over_are_the_programs() -> None:
    (passed,) = [found for rule in RULES for found in re.findall(r'reason!~"([^"]+)"', rule["expr"])]
    assert set(passed.split("|")) - {"draining"} <= set(get_args(Refusal))


def _every_error() -> Iterator[type[MemlaneError]]:
    todo: list[type[MemlaneError]] = [MemlaneError]
    while todo:
        kind = todo.pop()
        yield kind
        todo += kind.__subclasses__()


def test_the_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_the_chart_brings_rules_dashboard_and_monitor_when_asked(any_helm: Helm, home: Path) -> None:
    metrics = {
        name: {"enabled": True, "labels": {"release": "prometheus"}}
        for name in ("serviceMonitor", "rules", "dashboard")
    }
    found = read(any_helm.template(home, values={**LEAST, "metrics": metrics}).out)
    (rules,) = of_kind(found, "PrometheusRule")
    assert [rule for group in rules["spec"]["groups"] for rule in group["rules"]] == RULES
    (board,) = of_kind(found, "ConfigMap")
    assert json.loads(board["data"]["memlane.json"]) == DASHBOARD
    (monitor,) = of_kind(found, "ServiceMonitor")
    for one in (rules, board, monitor):
        assert one["metadata"]["labels"]["release"] == "prometheus"
    assert (
        of_kind(read(any_helm.template(home, values=LEAST).out), "PrometheusRule", "ConfigMap", "ServiceMonitor") == []
    )
