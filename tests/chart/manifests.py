"""Rendered manifests: read strictly, validated for a Kubernetes version, and what a test asks of them."""

import functools
import json
from collections.abc import Hashable, Iterator, Mapping
from importlib.resources import files
from typing import Any, TypeAlias

import jsonschema
import referencing
import yaml

Manifest: TypeAlias = dict[str, Any]

FOREIGN = {"ServiceMonitor", "PrometheusRule", "ExternalSecret"}
"""Kinds of operators that a cluster may have; Kubernetes itself has no schema for them."""


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice."""


def _mapping(loader: StrictLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)  # type: ignore[no-untyped-call]
        if key in seen:
            raise ValueError(f"the key {key!r} stands twice, line {key_node.start_mark.line + 1}")
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read(text: str) -> list[Manifest]:
    """Every manifest of a rendering."""
    return [one for one in yaml.load_all(text, Loader=StrictLoader) if one]


def title(manifest: Manifest) -> str:
    """Kind and name."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    """The manifests of these kinds."""
    return [one for one in manifests if one["kind"] in kinds]


def named(manifests: list[Manifest], kind: str, ending: str) -> Manifest:
    """The one manifest of a kind whose name ends so."""
    (found,) = [one for one in of_kind(manifests, kind) if one["metadata"]["name"].endswith(ending)]
    return found


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Every pod that the manifests make: its owner's title, and the pod with its metadata and spec."""
    for one in manifests:
        if one["kind"] in {"Deployment", "Job"}:
            yield title(one), one["spec"]["template"]
        if one["kind"] == "Pod":
            yield title(one), one


def containers(pod: Manifest) -> list[Manifest]:
    """All containers of a pod."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def environment(pod: Manifest, secrets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The variables that a pod's first container gets, with the values of Secrets by name and key."""
    found = {}
    for variable in containers(pod)[0].get("env", []):
        if "value" in variable:
            found[variable["name"]] = variable["value"]
        else:
            place = variable["valueFrom"]["secretKeyRef"]
            found[variable["name"]] = secrets[place["name"]][place["key"]]
    return found


def hook_weight(manifest: Manifest) -> int | None:
    """The weight of a hook that runs before everything else; None for what is no such hook."""
    annotations = manifest["metadata"].get("annotations") or {}
    if "pre-install" not in annotations.get("helm.sh/hook", ""):
        return None
    return int(annotations.get("helm.sh/hook-weight", "0"))


@functools.cache
def _validator(version: str, name: str) -> jsonschema.protocols.Validator:
    registry, folder = _registry(version)
    schema = json.loads(folder.joinpath(f"{name}.json").read_text())
    resource = referencing.Resource.from_contents(schema)
    return jsonschema.Draft202012Validator(schema, registry=resource @ registry)


@functools.cache
def _registry(version: str) -> tuple[Any, Any]:
    # `kubernetes_validate.validate` reads a megabyte of definitions for every manifest.
    folder = files("kubernetes_validate").joinpath(f"kubernetes-json-schema/v{version}.0-local-strict")
    definitions = referencing.Resource.from_contents(json.loads(folder.joinpath("_definitions.json").read_text()))
    return definitions @ referencing.Registry(), folder


def schema_faults(manifest: Manifest, version: str) -> list[str]:
    """What a Kubernetes of that version (`1.28`) would say of a manifest: unknown fields, wrong types."""
    group, _, number = manifest["apiVersion"].rpartition("/")
    short = group.partition(".")[0]
    name = "-".join(part for part in (manifest["kind"].lower(), short, number) if part)
    return [
        f"{title(manifest)} {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"
        for error in _validator(version, name).iter_errors(manifest)
    ]
