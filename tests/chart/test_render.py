"""Every example with both helms for three versions of Kubernetes: valid, whole, and safe."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chart.cases import EXAMPLES, OUTSIDE
from chart.helms import CHART, Helm
from chart.manifests import FOREIGN, Manifest, containers, named, of_kind, pods, read, schema_faults
from chart.pod_security import security_faults
from chart.references import reference_faults
from memlane.app import STOP_SECONDS
from memlane.cli.server import GRACE_SECONDS

VERSIONS = ("1.28", "1.33", "1.37")
Rendered = Callable[..., list[Manifest]]


@pytest.fixture(scope="module")
def rendered(any_helm: Helm, home: Path) -> Rendered:
    known: dict[tuple[str, str], list[Manifest]] = {}

    def render(example: str, version: str = "1.33") -> list[Manifest]:
        if (example, version) not in known:
            run = any_helm.template(home, CHART / "examples" / f"{example}.yaml", kube=f"{version}.0")
            assert run.code == 0, run.err
            known[example, version] = read(run.out)
        return copy.deepcopy(known[example, version])

    return render


def test_every_example_says_what_it_supposes() -> None:
    assert sorted(OUTSIDE) == EXAMPLES


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_valid_for_each_kubernetes(rendered: Rendered, example: str, version: str) -> None:
    found = rendered(example, version)
    assert len(found) > 15
    assert [fault for one in found if one["kind"] not in FOREIGN for fault in schema_faults(one, version)] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_reference_of_an_example_leads_somewhere(rendered: Rendered, example: str) -> None:
    assert reference_faults(rendered(example), OUTSIDE[example]) == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_pod_of_an_example_is_restricted(rendered: Rendered, example: str) -> None:
    found = rendered(example)
    assert len(list(pods(found))) >= 5
    assert security_faults(found) == []
    for account in of_kind(found, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def test_a_render_with_existing_secrets_is_the_same_each_time(any_helm: Helm, home: Path) -> None:
    runs = {any_helm.template(home, CHART / "examples" / "production.yaml").out for _ in range(2)}
    assert len(runs) == 1


def test_the_roles_listen_where_the_contract_says(rendered: Rendered) -> None:
    found = rendered("quickstart")
    for ending, port, role in (
        ("app-api", 4201, "api"),
        ("realtime-gateway", 4401, "gateway"),
        ("worker", 4501, "worker"),
    ):
        (container,) = containers(named(found, "Deployment", ending)["spec"]["template"])
        assert {one["name"]: one["containerPort"] for one in container["ports"]} == {"http": port, "metrics": 9464}
        assert container["args"] == [role]
        assert container["livenessProbe"]["httpGet"]["path"] == "/api/live"
        assert container["readinessProbe"]["httpGet"]["path"] == "/api/accepting"


def test_the_grace_time_covers_the_wait_the_drain_and_the_programs_own_limits(rendered: Rendered) -> None:
    for example in ("quickstart", "production"):
        found = rendered(example)
        for ending in ("app-api", "realtime-gateway", "worker"):
            spec = named(found, "Deployment", ending)["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            variables = {one["name"]: one.get("value") for one in container["env"]}
            before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
            needed = before + int(variables["MEMLANE_DRAIN_SECONDS"]) + GRACE_SECONDS + STOP_SECONDS
            assert spec["terminationGracePeriodSeconds"] >= needed + 5


def test_a_cache_for_one_writer_is_never_mounted_by_two_pods(rendered: Rendered) -> None:
    assert named(rendered("quickstart"), "Deployment", "embeddings")["spec"]["strategy"] == {"type": "Recreate"}
    shared = named(rendered("production"), "Deployment", "embeddings")["spec"]
    assert shared["strategy"]["type"] == "RollingUpdate"
    for claim in of_kind(rendered("quickstart"), "PersistentVolumeClaim"):
        assert "helm.sh/resource-policy" not in (claim["metadata"].get("annotations") or {})


def test_a_hosted_provider_leaves_nothing_of_the_workload_in_the_cluster(rendered: Rendered) -> None:
    found = rendered("external-embeddings")
    assert [one["metadata"]["name"] for one in found if "embeddings" in one["metadata"]["name"]] == []
    assert "text-embeddings-inference" not in str(found)


def test_the_model_is_pinned_and_its_server_prints_no_key(rendered: Rendered) -> None:
    (container,) = containers(named(rendered("production"), "Deployment", "embeddings")["spec"]["template"])
    words = container["args"]
    assert len(words[words.index("--revision") + 1]) == 40
    variables = {one["name"]: one for one in container["env"]}
    assert variables["LOG_LEVEL"]["value"] == "warn"
    assert variables["AUTO_TRUNCATE"]["value"] == "true"
    assert variables["API_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "memlane-embeddings", "key": "api-key"}


def test_an_air_gapped_model_is_mounted_and_not_fetched(rendered: Rendered) -> None:
    found = rendered("air-gapped")
    spec = named(found, "Deployment", "embeddings")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"][:2] == ["--model-id", "/model/all-MiniLM-L6-v2"]
    assert "--revision" not in container["args"]
    assert spec["volumes"][1]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    policy = named(found, "NetworkPolicy", "embeddings")["spec"]["egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in policy] == [[53, 53]]


@pytest.mark.parametrize(("example", "hosts"), [("production", 2), ("external-embeddings", 1)])
def test_one_host_or_two_lead_to_api_and_stream(rendered: Rendered, example: str, hosts: int) -> None:
    (ingress,) = of_kind(rendered(example), "Ingress")
    assert len(ingress["spec"]["rules"]) == hosts
    paths = {
        path["path"]: path["backend"]["service"]["name"]
        for rule in ingress["spec"]["rules"]
        for path in rule["http"]["paths"]
    }
    assert paths == {
        "/api": "memlane-app-api",
        "/mcp": "memlane-app-api",
        "/client": "memlane-realtime-gateway",
    }
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "3600"


@dataclass(frozen=True, slots=True)
class Spoil:
    """A fault: sets a field by its path, in which numbers are places in lists; None takes the field away."""

    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}={self.value!r}"

    def __call__(self, manifest: Manifest) -> None:
        node: Any = manifest
        *way, last = [int(part) if part.isdigit() else part for part in self.path.split("/")]
        for part in way:
            node = node[part]
        if self.value is None:
            del node[last]
        else:
            node[last] = self.value


CONTAINER = "spec/template/spec/containers/0"


@pytest.mark.parametrize(
    ("kind", "ending", "spoil"),
    [
        ("Deployment", "app-api", Spoil("spec/template/spec/serviceAccountName", "nobody")),
        ("Deployment", "app-api", Spoil(f"{CONTAINER}/env/0/name", "DATABASE_URL")),
        ("Deployment", "app-api", Spoil(f"{CONTAINER}/ports/0/name", "web")),
        ("Deployment", "app-api", Spoil(f"{CONTAINER}/volumeMounts/0/name", "data")),
        ("Deployment", "app-api", Spoil(f"{CONTAINER}/livenessProbe/httpGet/port", "web")),
        ("Deployment", "app-api", Spoil("spec/template/metadata/labels/app.kubernetes.io~component", "api")),
        ("Deployment", "embeddings", Spoil("spec/template/spec/volumes/1/persistentVolumeClaim/claimName", "none")),
        ("Secret", "secrets", Spoil("data/REDIS_URL", None)),
        ("Secret", "secrets", Spoil("metadata/name", "others")),
        ("Secret", "migrations", Spoil("metadata/annotations/helm.sh~hook-weight", "5")),
        ("ServiceAccount", "migrations", Spoil("metadata/annotations/helm.sh~hook", "post-install")),
        ("Service", "app-api", Spoil("spec/ports/0/targetPort", "web")),
        ("Service", "worker", Spoil("spec/selector", {"app": "none"})),
        ("PodDisruptionBudget", "app-api", Spoil("spec/selector/matchLabels", {"app": "none"})),
        ("NetworkPolicy", "embeddings", Spoil("spec/ingress/0/from/0/podSelector/matchLabels", {"app": "none"})),
        ("NetworkPolicy", "worker", Spoil("spec/ingress/0/ports/0/port", "web")),
        ("Service", "worker", Spoil("metadata/name", "memlane-app-api")),
        ("Service", "worker", Spoil("metadata/labels/app.kubernetes.io~version", "1.0+2")),
        ("Service", "worker", Spoil("metadata/name", "w" * 64)),
    ],
    ids=str,
)
def test_the_check_of_references_finds_what_is_broken(rendered: Rendered, kind: str, ending: str, spoil: Spoil) -> None:
    found = rendered("quickstart")
    _spoil(named(found, kind, ending), spoil)
    assert reference_faults(found, OUTSIDE["quickstart"]) != []


@pytest.mark.parametrize(
    "spoil",
    [
        Spoil("spec/template/spec/hostNetwork", True),
        Spoil("spec/template/spec/enableServiceLinks", None),
        Spoil("spec/template/spec/automountServiceAccountToken", True),
        Spoil("spec/template/spec/volumes/0", {"name": "tmp", "hostPath": {"path": "/"}}),
        Spoil(f"{CONTAINER}/securityContext/runAsNonRoot", False),
        Spoil(f"{CONTAINER}/securityContext/runAsUser", 0),
        Spoil(f"{CONTAINER}/securityContext/seccompProfile", {"type": "Unconfined"}),
        Spoil(f"{CONTAINER}/securityContext/allowPrivilegeEscalation", None),
        Spoil(f"{CONTAINER}/securityContext/capabilities/drop", ["NET_RAW"]),
        Spoil(f"{CONTAINER}/securityContext/readOnlyRootFilesystem", None),
        Spoil(f"{CONTAINER}/resources", {}),
    ],
    ids=str,
)
def test_the_check_of_pod_security_finds_what_is_broken(rendered: Rendered, spoil: Spoil) -> None:
    found = rendered("quickstart")
    _spoil(named(found, "Deployment", "app-api"), spoil)
    assert len(security_faults(found)) == 1


def test_the_check_of_schemas_finds_a_wrong_field(rendered: Rendered) -> None:
    deployment = named(rendered("quickstart"), "Deployment", "app-api")
    deployment["spec"]["replica"] = 2
    deployment["spec"]["revisionHistoryLimit"] = "5"
    assert len(schema_faults(deployment, "1.28")) == 2


def _spoil(manifest: Manifest, spoil: Spoil) -> None:
    # A slash inside a key is written as ~.
    restored = _renamed(manifest, "/", "~")
    spoil(restored)
    manifest.clear()
    manifest.update(_renamed(restored, "~", "/"))


def _renamed(node: Any, old: str, new: str) -> Any:
    if isinstance(node, dict):
        return {key.replace(old, new): _renamed(value, old, new) for key, value in node.items()}
    return [_renamed(value, old, new) for value in node] if isinstance(node, list) else node
