"""What no schema sees: names that nothing bears, selectors that match nothing, ports that nothing opens."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chart.manifests import Manifest, containers, hook_weight, of_kind, pods, title

LABEL_MAX = 63


@dataclass(frozen=True, slots=True)
class Outside:
    """What the operator has made before: Secrets with their keys, claims, service accounts."""

    secrets: dict[str, set[str]] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    accounts: set[str] = field(default_factory=set)


def reference_faults(manifests: list[Manifest], outside: Outside) -> list[str]:
    """Every reference of the manifests that leads nowhere."""
    return [
        *_of_pods(manifests, outside),
        *_of_services(manifests),
        *_of_selectors(manifests),
        *_of_monitors(manifests),
        *_of_doors(manifests),
        *_of_policies(manifests),
        *_of_names(manifests),
    ]


def _keys_by_secret(manifests: list[Manifest], outside: Outside, before: int | None) -> dict[str, set[str]]:
    """The Secrets that exist when something runs; ``before`` is the weight of the hook that asks."""
    found = dict(outside.secrets)
    for one in of_kind(manifests, "Secret", "ExternalSecret"):
        weight = hook_weight(one)
        if before is not None and (weight is None or weight >= before):
            continue
        if before is None and weight is not None:
            continue  # deleted when its hook is over
        if one["kind"] == "Secret":
            found[one["metadata"]["name"]] = set(one.get("data", {})) | set(one.get("stringData", {}))
        else:
            found[one["spec"]["target"]["name"]] = {entry["secretKey"] for entry in one["spec"]["data"]}
    return found


def _of_pods(manifests: list[Manifest], outside: Outside) -> Iterator[str]:
    owners = {title(one): one for one in manifests}
    claims = {one["metadata"]["name"] for one in of_kind(manifests, "PersistentVolumeClaim")} | outside.claims
    for owner, pod in pods(manifests):
        before = hook_weight(owners[owner])
        secrets = _keys_by_secret(manifests, outside, before)
        accounts = outside.accounts | {
            one["metadata"]["name"]
            for one in of_kind(manifests, "ServiceAccount")
            if (before is None and hook_weight(one) is None)
            or (before is not None and (hook_weight(one) or 0) < before and hook_weight(one) is not None)
        }
        spec = pod["spec"]
        if spec["serviceAccountName"] not in accounts:
            yield f"{owner}: no ServiceAccount {spec['serviceAccountName']}"
        for pull in spec.get("imagePullSecrets", []):
            if pull["name"] not in secrets:
                yield f"{owner}: no pull Secret {pull['name']}"
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        for volume in spec.get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim is not None and (claim not in claims or before is not None):
                yield f"{owner}: no claim {claim}"
        for container in containers(pod):
            yield from _of_container(f"{owner} {container['name']}", container, secrets, volumes)


def _of_container(place: str, container: Manifest, secrets: dict[str, set[str]], volumes: set[str]) -> Iterator[str]:
    names = [variable["name"] for variable in container.get("env", [])]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{place}: the variable {name} stands twice"
    for variable in container.get("env", []):
        wanted = variable.get("valueFrom", {}).get("secretKeyRef")
        if wanted and wanted["key"] not in secrets.get(wanted["name"], set()):
            yield f"{place}: {variable['name']} wants the key {wanted['key']} of the Secret {wanted['name']}"
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    for name in sorted(mounted ^ volumes):
        yield f"{place}: the volume {name} is mounted or made, not both"
    ports = {port["name"] for port in container.get("ports", [])}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        if kind in container and container[kind]["httpGet"]["port"] not in ports:
            yield f"{place}: {kind} asks the port {container[kind]['httpGet']['port']}"


def matching(manifests: list[Manifest], labels: dict[str, str]) -> list[tuple[str, Manifest]]:
    """The pods that a selector matches."""
    return [
        (owner, pod)
        for owner, pod in pods(manifests)
        if labels.items() <= (pod["metadata"].get("labels") or {}).items()
    ]


def _all_open(found: list[tuple[str, Manifest]], name: str) -> bool:
    return all(name in {port["name"] for one in containers(pod) for port in one.get("ports", [])} for _, pod in found)


def _of_services(manifests: list[Manifest]) -> Iterator[str]:
    for one in of_kind(manifests, "Service"):
        found = matching(manifests, one["spec"]["selector"])
        if len(found) != 1:
            yield f"{title(one)}: selects {[owner for owner, _ in found]}, not one workload"
        for port in one["spec"]["ports"]:
            if not _all_open(found, port["targetPort"]):
                yield f"{title(one)}: nothing opens its port {port['targetPort']}"


def _of_selectors(manifests: list[Manifest]) -> Iterator[str]:
    for one in of_kind(manifests, "Deployment"):
        if not one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items():
            yield f"{title(one)}: does not select its own pods"
    for one in of_kind(manifests, "PodDisruptionBudget"):
        if len(matching(manifests, one["spec"]["selector"]["matchLabels"])) != 1:
            yield f"{title(one)}: selects no workload, or several"
    for one in of_kind(manifests, "HorizontalPodAutoscaler"):
        target = one["spec"]["scaleTargetRef"]
        scaled = [each for each in manifests if title(each) == f"{target['kind']}/{target['name']}"]
        if not scaled or "replicas" in scaled[0]["spec"]:
            yield f"{title(one)}: its target is missing, or has a number of pods of its own"
    for owner, pod in pods(manifests):
        for spread in pod["spec"].get("topologySpreadConstraints", []):
            if not spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items():
                yield f"{owner}: spreads other pods than its own"


def _of_monitors(manifests: list[Manifest]) -> Iterator[str]:
    for one in of_kind(manifests, "ServiceMonitor"):
        wanted = one["spec"]["selector"]["matchLabels"].items()
        served = [each for each in of_kind(manifests, "Service") if wanted <= each["metadata"]["labels"].items()]
        for endpoint in one["spec"]["endpoints"]:
            if not served or any(endpoint["port"] not in _names_of(each["spec"]["ports"]) for each in served):
                yield f"{title(one)}: a Service has no port {endpoint['port']}, or there is none"


def _names_of(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["name"] for entry in entries}


def _of_doors(manifests: list[Manifest]) -> Iterator[str]:
    services = {one["metadata"]["name"]: one for one in of_kind(manifests, "Service")}
    for one in of_kind(manifests, "Ingress"):
        for rule in one["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                service = services.get(backend["name"])
                if service is None or backend["port"]["name"] not in _names_of(service["spec"]["ports"]):
                    yield f"{title(one)}: no Service {backend['name']} with the port {backend['port']['name']}"


def _of_policies(manifests: list[Manifest]) -> Iterator[str]:
    for one in of_kind(manifests, "NetworkPolicy"):
        chosen = matching(manifests, one["spec"]["podSelector"]["matchLabels"])
        if len(chosen) != 1:
            yield f"{title(one)}: selects no workload, or several"
        for direction, end in (("ingress", "from"), ("egress", "to")):
            for rule in one["spec"].get(direction) or []:
                others = _peers(manifests, rule.get(end, []))
                if [] in others:
                    yield f"{title(one)}: lets pods in or out that do not exist"
                opened = chosen if direction == "ingress" else [pod for each in others for pod in each]
                for port in rule.get("ports", []):
                    if isinstance(port["port"], str) and not _all_open(opened, port["port"]):
                        yield f"{title(one)}: no port {port['port']}"


def _peers(manifests: list[Manifest], peers: list[Manifest]) -> list[list[tuple[str, Manifest]]]:
    """The pods of each peer that is of this namespace."""
    return [
        matching(manifests, peer["podSelector"]["matchLabels"])
        for peer in peers
        if "podSelector" in peer and "namespaceSelector" not in peer
    ]


def _of_names(manifests: list[Manifest]) -> Iterator[str]:
    seen = set()
    for one in manifests:
        place = (one["apiVersion"].rpartition("/")[0], one["kind"], one["metadata"]["name"])
        if place in seen and hook_weight(one) is None:
            yield f"{title(one)}: stands twice"
        seen.add(place)
        if len(one["metadata"]["name"]) > LABEL_MAX:
            yield f"{title(one)}: its name is longer than 63 characters"
        labels = [one["metadata"].get("labels") or {}, *(pod["metadata"]["labels"] for _, pod in pods([one]))]
        for name, value in (pair for each in labels for pair in each.items()):
            if not isinstance(value, str) or len(value) > LABEL_MAX or "+" in value:
                yield f"{title(one)}: the label {name} has no label's value"
