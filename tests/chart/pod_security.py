"""The Pod Security Standard "restricted" as a function, and this chart's own rules beside it."""

from collections.abc import Iterator
from typing import Any

from chart.manifests import Manifest, containers, pods

ALLOWED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def security_faults(manifests: list[Manifest]) -> list[str]:
    """What a namespace with `pod-security.kubernetes.io/enforce: restricted` would refuse, and what we forbid."""
    return [f"{owner}: {fault}" for owner, pod in pods(manifests) for fault in _of_pod(pod["spec"])]


def _of_pod(spec: dict[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        if spec.get(field):
            yield f"{field} is on"
    for volume in spec.get("volumes", []):
        if kinds := set(volume) - {"name"} - ALLOWED_VOLUMES:
            yield f"a volume of the kind {kinds}"
    shared = spec.get("securityContext", {})
    for one in containers({"spec": spec}):
        own = one.get("securityContext", {})
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True:
            yield "may run as root"
        if own.get("runAsUser", shared.get("runAsUser")) in {0, None}:
            yield "runs as root, or as whoever the image says"
        if own.get("seccompProfile", shared.get("seccompProfile", {})).get("type") not in {
            "RuntimeDefault",
            "Localhost",
        }:
            yield "has no seccomp profile"
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            yield "may gain rights"
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            yield "keeps capabilities"
        if any("hostPort" in port for port in one.get("ports", [])):
            yield "opens a port of the node"
        if own.get("readOnlyRootFilesystem") is not True:
            yield "may write to its root"
        wanted = one.get("resources", {})
        if not {"cpu", "memory"} <= wanted.get("requests", {}).keys() or "memory" not in wanted.get("limits", {}):
            yield "says not what it needs"
    if spec.get("enableServiceLinks") is not False:
        yield "gets variables of every Service"
    if spec.get("automountServiceAccountToken") is not False:
        yield "gets a token"
