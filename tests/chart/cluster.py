"""A small Kubernetes API in memory: the objects, their patches, and what the control plane would do with them.

Enough for a real `helm`: it refuses what the schemas and the rules on unchangeable fields refuse, and it runs the pods
of Jobs and of `helm test` by a function of the test's, with the variables that a kubelet would give them.
"""

import base64
import copy
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from chart.manifests import Manifest, containers, schema_faults
from chart.patches import merge_patch, strategic_merge
from chart.pod_security import security_faults

Place = tuple[str, str, str]
"""A kind's plural, a namespace ('' for none) and a name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects and where its API is."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        """The path of its group."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


KINDS = (
    Kind("namespaces", "Namespace", namespaced=False),
    Kind("secrets", "Secret"),
    Kind("configmaps", "ConfigMap"),
    Kind("services", "Service"),
    Kind("serviceaccounts", "ServiceAccount"),
    Kind("persistentvolumeclaims", "PersistentVolumeClaim"),
    Kind("pods", "Pod"),
    Kind("deployments", "Deployment", "apps"),
    Kind("replicasets", "ReplicaSet", "apps"),
    Kind("jobs", "Job", "batch"),
    Kind("ingresses", "Ingress", "networking.k8s.io"),
    Kind("networkpolicies", "NetworkPolicy", "networking.k8s.io"),
    Kind("horizontalpodautoscalers", "HorizontalPodAutoscaler", "autoscaling", "v2"),
    Kind("poddisruptionbudgets", "PodDisruptionBudget", "policy"),
)
BY_PLURAL = {kind.plural: kind for kind in KINDS}
FIXED = {
    "deployments": [("spec", "selector")],
    "jobs": [("spec", "template"), ("spec", "selector")],
    "persistentvolumeclaims": [("spec", "accessModes"), ("spec", "storageClassName"), ("spec", "volumeName")],
    "services": [("spec", "clusterIP")],
}
"""Fields that never change once an object stands."""


class Refused(Exception):
    """The API says no: a status and a reason."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PodRun:
    """A pod that would run now: its object, and its first container's variables."""

    owner: str
    pod: Manifest
    environment: dict[str, str]

    @property
    def words(self) -> list[str]:
        """Its first container's arguments."""
        return list(containers(self.pod)[0]["args"])


Runner = Callable[[PodRun], int]
"""Runs a pod to its end and gives the exit code."""


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history that watches read."""

    version: int
    act: str
    place: Place
    object: Manifest


@dataclass
class Cluster:
    """The objects, and their history.

    Args:
        version: Of Kubernetes, such as `1.33`: its schemas are held up to every object.
        runner: Runs pods that end.
    """

    version: str
    runner: Runner
    objects: dict[Place, Manifest] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    runs: list[PodRun] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))

    def __post_init__(self) -> None:
        self._versions = itertools.count(1)
        for name in ("default", "memory"):
            self.create("namespaces", "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.create("serviceaccounts", "memory", account)

    @property
    def head(self) -> int:
        """The version of the newest change."""
        return self.history[-1].version if self.history else 0

    def names(self, plural: str) -> list[str]:
        """The names of all objects of a kind."""
        with self.changed:
            return sorted(name for kind, _, name in self.objects if kind == plural)

    def get(self, plural: str, namespace: str, name: str) -> Manifest:
        """One object.

        Raises:
            Refused: There is none.
        """
        with self.changed:
            if (plural, namespace, name) not in self.objects:
                raise Refused(404, "NotFound", f'{plural} "{name}" not found')
            return copy.deepcopy(self.objects[plural, namespace, name])

    def list(self, plural: str, namespace: str | None) -> list[Manifest]:
        """The objects of a kind, of one namespace or of all."""
        with self.changed:
            return [
                copy.deepcopy(one)
                for (kind, space, _), one in sorted(self.objects.items())
                if kind == plural and namespace in {None, space}
            ]

    def create(self, plural: str, namespace: str, manifest: Manifest) -> Manifest:
        """Make an object.

        Raises:
            Refused: It exists, or is not valid.
        """
        made = copy.deepcopy(manifest)
        metadata = made["metadata"]
        with self.changed:
            if (plural, namespace, metadata["name"]) in self.objects:
                raise Refused(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
            if namespace and ("namespaces", "", namespace) not in self.objects:
                raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
            self._admit(made)
            if namespace:
                metadata["namespace"] = namespace
            metadata |= {"uid": str(uuid4()), "creationTimestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            metadata["generation"] = 1
            self._keep("ADDED", (plural, namespace, metadata["name"]), made)
        self._control(plural, namespace, made)
        return self.get(plural, namespace, metadata["name"])

    def replace(self, plural: str, namespace: str, name: str, manifest: Manifest) -> Manifest:
        """Write an object anew; what the server owns stays.

        Raises:
            Refused: There is none, it is not valid, or a field changed that may not.
        """
        with self.changed:
            old = self.get(plural, namespace, name)
            new = copy.deepcopy(manifest)
            kept = ("uid", "creationTimestamp", "namespace", "generation")
            new["metadata"] |= {key: old["metadata"][key] for key in kept if key in old["metadata"]}
            new["metadata"].pop("resourceVersion", None)
            if "status" in old:
                new["status"] = old["status"]
            for path in FIXED.get(plural, []):
                before, after = _at(old, path), _at(new, path)
                if before is not None and after is None:
                    _put(new, path, before)
                elif before != after:
                    raise Refused(422, "Invalid", f'{plural} "{name}" is invalid: {".".join(path)}: field is immutable')
            self._admit(new)
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] += 1
            old["metadata"].pop("resourceVersion", None)
            if new != old:
                self._keep("MODIFIED", (plural, namespace, name), new)
        self._control(plural, namespace, new)
        return self.get(plural, namespace, name)

    def patch(self, plural: str, namespace: str, name: str, how: str, patch: Manifest) -> Manifest:
        """Patch an object by one of the API's ways; an applied one is made when there is none."""
        if how == "application/apply-patch+yaml":
            if (plural, namespace, name) not in self.objects:
                return self.create(plural, namespace, patch)
            # One manager alone applies here: what it leaves out goes.
            return self.replace(plural, namespace, name, patch)
        old = self.get(plural, namespace, name)
        act = strategic_merge if how == "application/strategic-merge-patch+json" else merge_patch
        return self.replace(plural, namespace, name, act(old, patch))

    def delete(self, plural: str, namespace: str, name: str) -> Manifest:
        """Take an object away, and the pods of a Job."""
        with self.changed:
            gone = self.get(plural, namespace, name)
            del self.objects[plural, namespace, name]
            self._note("DELETED", (plural, namespace, name), gone)
            return gone

    def env_of(self, namespace: str, spec: Manifest) -> dict[str, str]:
        """What a kubelet would give a pod's first container.

        Raises:
            Refused: A Secret, its key, or the ServiceAccount is missing: the pod would not start.
        """
        self.get("serviceaccounts", namespace, spec["serviceAccountName"])
        found: dict[str, str] = {}
        if spec.get("enableServiceLinks", True):
            for service in self.list("services", namespace):
                link = service["metadata"]["name"].upper().replace("-", "_")
                found[f"{link}_PORT"] = f"tcp://10.0.0.1:{service['spec']['ports'][0]['port']}"
        for variable in containers({"spec": spec})[0].get("env", []):
            if "value" in variable:
                found[variable["name"]] = variable["value"]
                continue
            wanted = variable["valueFrom"]["secretKeyRef"]
            data = self.get("secrets", namespace, wanted["name"])["data"]
            if wanted["key"] not in data:
                raise Refused(404, "NotFound", f"the Secret {wanted['name']} has no key {wanted['key']}")
            found[variable["name"]] = base64.b64decode(data[wanted["key"]]).decode()
        return found

    def _admit(self, manifest: Manifest) -> None:
        judged = {key: value for key, value in manifest.items() if key != "status"}
        if faults := schema_faults(judged, self.version):
            raise Refused(422, "Invalid", "; ".join(faults))
        if faults := security_faults([judged]):
            raise Refused(403, "Forbidden", f"violates PodSecurity restricted: {'; '.join(faults)}")

    def _keep(self, act: str, place: Place, manifest: Manifest) -> None:
        manifest["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[place] = manifest
        self._note(act, place, manifest)

    def _note(self, act: str, place: Place, manifest: Manifest) -> None:
        noted = copy.deepcopy(manifest)
        if act == "DELETED":
            noted["metadata"]["resourceVersion"] = str(next(self._versions))
        self.history.append(Change(int(noted["metadata"]["resourceVersion"]), act, place, noted))
        self.changed.notify_all()

    def _set_status(self, place: Place, status: Mapping[str, Any]) -> None:
        with self.changed:
            if place in self.objects:
                self._keep("MODIFIED", place, {**self.objects[place], "status": dict(status)})

    def _control(self, plural: str, namespace: str, manifest: Manifest) -> None:
        """What controllers do: bind claims, bring Deployments up, run Jobs and pods."""
        name = manifest["metadata"]["name"]
        place = (plural, namespace, name)
        if "status" in self.objects.get(place, {}) and plural in {"jobs", "pods", "persistentvolumeclaims"}:
            return
        if plural == "persistentvolumeclaims":
            self._set_status(place, {"phase": "Bound"})
        if plural == "deployments":
            wanted = manifest["spec"].get("replicas", 1)
            counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), wanted)
            status = {
                **counts,
                "observedGeneration": self.objects[place]["metadata"]["generation"],
                "conditions": [{"type": "Available", "status": "True"}],
            }
            if self.objects[place].get("status") != status:
                self._set_status(place, status)
        if plural == "jobs":
            threading.Thread(target=self._run_job, args=(place, manifest), daemon=True).start()
        if plural == "pods":
            threading.Thread(target=self._run_pod, args=(place, manifest), daemon=True).start()

    def _run_job(self, place: Place, manifest: Manifest) -> None:
        code = self._run(place, manifest["spec"]["template"])
        condition = {"type": "Complete" if code == 0 else "Failed", "status": "True", "reason": "Ended"}
        counts = {"succeeded": 1} if code == 0 else {"failed": 1}
        self._set_status(place, {**counts, "conditions": [condition]})

    def _run_pod(self, place: Place, manifest: Manifest) -> None:
        code = self._run(place, manifest)
        self._set_status(place, {"phase": "Succeeded" if code == 0 else "Failed"})

    def _run(self, place: Place, pod: Manifest) -> int:
        try:
            run = PodRun(place[2], pod, self.env_of(place[1], pod["spec"]))
        except Refused:
            return 1
        self.runs.append(run)
        return self.runner(run)

    def changes_after(self, version: int, plural: str, namespace: str | None) -> Iterator[Change]:
        """The history of a kind after a version."""
        for change in self.history:
            kind, space, _ = change.place
            if change.version > version and kind == plural and namespace in {None, space}:
                yield change


def _at(manifest: Manifest, path: tuple[str, ...]) -> Any:
    node: Any = manifest
    for part in path:
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _put(manifest: Manifest, path: tuple[str, ...], value: Any) -> None:
    node = manifest
    for part in path[:-1]:
        node = node.setdefault(part, {})
    node[path[-1]] = value
