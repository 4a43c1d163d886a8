"""Names, labels and numbers at their limits."""

from pathlib import Path
from typing import Any

import pytest

from chart.cases import LEAST
from chart.helms import Helm
from chart.manifests import containers, environment, named, pods, read, schema_faults
from chart.pod_security import security_faults
from chart.references import Outside, reference_faults


def render(helm: Helm, home: Path, release: str = "memlane", **values: Any) -> list[dict[str, Any]]:
    merged: dict[str, Any] = {name: dict(section) for name, section in LEAST.items()}
    for name, section in values.items():
        merged[name] = {**merged.get(name, {}), **section} if isinstance(section, dict) else section
    run = helm.template(home, values=merged, release=release)
    assert run.code == 0, run.err
    found = read(run.out)
    assert reference_faults(found, Outside(accounts={"default"})) == []
    assert security_faults(found) == []
    assert [fault for one in found for fault in schema_faults(one, "1.28")] == []
    return found


def test_a_plus_in_a_tag_becomes_an_underscore_in_image_and_labels(any_helm: Helm, home: Path) -> None:
    found = render(any_helm, home, image={"tag": "1.2.3+build.5"})
    template = named(found, "Deployment", "app-api")["spec"]["template"]
    assert containers(template)[0]["image"] == "registry.example.com/memlane:1.2.3_build.5"
    assert template["metadata"]["labels"]["app.kubernetes.io/version"] == "1.2.3_build.5"


def test_helms_longest_release_name_makes_valid_names(any_helm: Helm, home: Path) -> None:
    found = render(any_helm, home, release="r" * 53)
    assert max(len(one["metadata"]["name"]) for one in found) <= 63


def test_a_name_of_63_characters_makes_valid_names_and_two_of_them_stay_two(any_helm: Helm, home: Path) -> None:
    names = []
    for last in "ab":
        found = render(any_helm, home, fullnameOverride="n" * 62 + last)
        names.append({one["metadata"]["name"] for one in found})
    assert not names[0] & names[1]


def test_a_release_name_of_63_characters_is_refused_by_helm_itself(any_helm: Helm, home: Path) -> None:
    run = any_helm.template(home, values=LEAST, release="r" * 63)
    assert run.code == 1
    assert "release name" in run.err or "53" in run.err


def test_large_numbers_and_quoted_numbers_survive(any_helm: Helm, home: Path) -> None:
    found = render(
        any_helm,
        home,
        podSecurity={"runAsUser": 1000680000, "runAsGroup": "1000680000"},
        embeddings={"maxBatchTokens": 1048576},
        api={
            "extraEnv": {"LARGE": 1048576, "HUGE": 9007199254740991, "QUOTED": "0123", "SMALL": 0.25, "YES": True},
            "podAnnotations": {"example.com/number": 1048576, "example.com/quoted": "1e6"},
            "resources": {"requests": {"cpu": "1", "memory": 1073741824}, "limits": {"memory": "2147483648"}},
        },
        image={"tag": "1.10"},
    )
    template = named(found, "Deployment", "app-api")["spec"]["template"]
    assert template["spec"]["securityContext"]["runAsUser"] == 1000680000
    assert template["spec"]["securityContext"]["fsGroup"] == 1000680000
    (container,) = containers(template)
    variables = {one["name"]: one.get("value") for one in container["env"]}
    wanted = {"LARGE": "1048576", "HUGE": "9007199254740991", "QUOTED": "0123", "SMALL": "0.25", "YES": "true"}
    assert wanted.items() <= variables.items()
    assert template["metadata"]["annotations"]["example.com/number"] == "1048576"
    assert template["metadata"]["annotations"]["example.com/quoted"] == "1e6"
    assert container["resources"]["requests"]["memory"] == 1073741824
    assert container["image"].endswith(":1.10")
    words = containers(named(found, "Deployment", "embeddings")["spec"]["template"])[0]["args"]
    assert words[words.index("--max-batch-tokens") + 1] == "1048576"


def test_a_service_named_prometheus_gives_no_pod_a_variable(any_helm: Helm, home: Path) -> None:
    """Kubernetes would set PROMETHEUS_PORT=tcp://…, which the embeddings service takes for its own setting."""
    found = render(any_helm, home)
    for owner, pod in pods(found):
        assert pod["spec"]["enableServiceLinks"] is False, owner
        assert "PROMETHEUS_PORT" not in environment(pod, {"memlane-secrets": _Any(), "memlane-migrations": _Any()})


@pytest.mark.parametrize("account", ["", "mine"])
def test_a_service_account_of_the_operators_is_used_by_all(any_helm: Helm, home: Path, account: str) -> None:
    values = {**LEAST, "serviceAccount": {"create": False, "name": account}}
    found = read(any_helm.template(home, values=values).out)
    assert {pod["spec"]["serviceAccountName"] for _, pod in pods(found)} == {account or "default"}
    assert reference_faults(found, Outside(accounts={account or "default"})) == []


def test_a_gpu_is_asked_for_with_its_own_image(any_helm: Helm, home: Path) -> None:
    found = render(any_helm, home, embeddings={"gpu": {"enabled": True, "count": 2, "runtimeClassName": "nvidia"}})
    spec = named(found, "Deployment", "embeddings")["spec"]["template"]["spec"]
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["containers"][0]["image"].endswith(":1.9.3")
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_a_parent_chart_may_set_globals(any_helm: Helm, home: Path) -> None:
    render(any_helm, home, **{"global": {"imageRegistry": "elsewhere", "anything": {"at": "all"}}})


class _Any(dict[str, str]):
    """Some Secret: has every key."""

    def __missing__(self, key: str) -> str:
        return "value"
