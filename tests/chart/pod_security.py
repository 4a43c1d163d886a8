"""The Pod Security Standard "restricted" as a table, and this chart's own rules beside it."""

from collections.abc import Callable, Iterator
from typing import Any

from chart.manifests import Manifest, containers, pods

ALLOWED_VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
Spec = dict[str, Any]

OF_A_POD: dict[str, Callable[[Spec], bool]] = {
    "shares something of the node": lambda pod: (
        not any(pod.get(field) for field in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"))
    ),
    "mounts a volume of a forbidden kind": lambda pod: all(
        set(volume) - {"name"} <= ALLOWED_VOLUMES for volume in pod.get("volumes", [])
    ),
    "gets variables of every Service": lambda pod: pod.get("enableServiceLinks") is False,
    "gets a token": lambda pod: pod.get("automountServiceAccountToken") is False,
}
OF_A_CONTAINER: dict[str, Callable[[Spec, Spec], bool]] = {
    # A container and its security context, into which the pod's own is merged.
    "may run as root": lambda _, safety: safety.get("runAsNonRoot") is True,
    "runs as root, or as whoever the image says": lambda _, safety: safety.get("runAsUser") not in {0, None},
    "has no seccomp profile": lambda _, safety: (
        safety.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"}
    ),
    "may gain rights": lambda _, safety: (
        safety.get("allowPrivilegeEscalation") is False and not safety.get("privileged")
    ),
    "keeps capabilities": lambda _, safety: safety.get("capabilities") == {"drop": ["ALL"]},
    "opens a port of the node": lambda container, _: all("hostPort" not in port for port in container.get("ports", [])),
    "may write to its root": lambda _, safety: safety.get("readOnlyRootFilesystem") is True,
    "does not say what it needs": lambda container, _: (
        {"cpu", "memory"} <= container.get("resources", {}).get("requests", {}).keys()
        and "memory" in container["resources"].get("limits", {})
    ),
}
"""Each rule holds when its function is true; its name says what is wrong otherwise."""


def security_faults(manifests: list[Manifest]) -> list[str]:
    """What a namespace with `pod-security.kubernetes.io/enforce: restricted` would refuse, and what we forbid."""
    return [f"{owner}: {fault}" for owner, pod in pods(manifests) for fault in _of_pod(pod["spec"])]


def _of_pod(spec: Spec) -> Iterator[str]:
    yield from (fault for fault, holds in OF_A_POD.items() if not holds(spec))
    for container in containers({"spec": spec}):
        safety = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        yield from (fault for fault, holds in OF_A_CONTAINER.items() if not holds(container, safety))
