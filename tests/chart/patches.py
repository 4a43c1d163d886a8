"""JSON merge patches (RFC 7396) and Kubernetes' strategic ones, as far as Helm 3 sends them."""

import copy
from typing import Any

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "ownerReferences": "uid",
}
"""Lists whose entries are merged by a key; every other list is replaced."""


def merge_patch(old: Any, patch: Any) -> Any:
    """RFC 7396: null takes a field away, a list replaces a list."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(old: Any, patch: Any) -> Any:
    """Merge as the API server does: some lists by key, with `$patch`, `$retainKeys` and `$setElementOrder`."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    merged = dict(old) if isinstance(old, dict) else {}
    if "$retainKeys" in patch:
        merged = {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, list) and (name := _merge_key(key, value)):
            order = patch.get(f"$setElementOrder/{key}", [])
            merged[key] = _merge_lists(merged.get(key) or [], value, name, [one[name] for one in order])
        else:
            merged[key] = strategic_merge(merged.get(key), value)
    for key, order in patch.items():
        field = key.removeprefix("$setElementOrder/")
        if field != key and field not in patch and field in merged and (name := _merge_key(field, order)):
            merged[field] = _ordered(merged[field], name, [one[name] for one in order])
    return merged


def _merge_key(field: str, entries: list[Any]) -> str | None:
    if field == "ports":
        # A container's and a Service's ports have the same name and other keys.
        return next((key for key in ("containerPort", "port") if entries and key in entries[0]), None)
    return MERGE_KEYS.get(field)


def _merge_lists(old: list[Any], patch: list[Any], name: str, order: list[Any]) -> list[Any]:
    merged = {one[name]: one for one in old}
    for entry in patch:
        if entry.get("$patch") == "delete":
            merged.pop(entry[name], None)
        else:
            merged[entry[name]] = strategic_merge(merged.get(entry[name]), entry)
    return _ordered(list(merged.values()), name, order)


def _ordered(entries: list[Any], name: str, order: list[Any]) -> list[Any]:
    rank = {value: place for place, value in enumerate(order)}
    return sorted(entries, key=lambda one: rank.get(one[name], len(rank)))
