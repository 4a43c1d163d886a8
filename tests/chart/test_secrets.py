"""Every secret, from every source, at every consumer; and no value of one where it does not belong."""

import base64
from pathlib import Path
from typing import Any

import pytest

from chart.cases import LEAST
from chart.helms import Helm
from chart.manifests import Manifest, containers, environment, named, of_kind, pods, read
from chart.references import Outside, reference_faults

CONSUMERS = {
    "database": {("app-api", "DATABASE_URL"), ("realtime-gateway", "DATABASE_URL"), ("worker", "DATABASE_URL")},
    "redis": {("app-api", "REDIS_URL"), ("realtime-gateway", "REDIS_URL")},
    "license": {(role, "MEMLANE_LICENSE") for role in ("app-api", "realtime-gateway", "worker")},
    "joinSecrets": {(role, "MEMLANE_JOIN_SECRETS") for role in ("app-api", "realtime-gateway", "worker")},
    "embeddingsApiKey": {("app-api", "MEMORY_EMBEDDINGS_API_KEY"), ("embeddings", "API_KEY")},
}
VALUES = {
    "database": ("database", "url", "postgresql://memlane:pass-of-database@postgres.data:5432/memlane"),
    "redis": ("redis", "url", "redis://:pass-of-redis@redis.data:6379/0"),
    "license": ("license", "token", "token-of-license"),
    "joinSecrets": ("joinSecrets", "value", "secret-of-the-join-tokens-32-bytes-or-more"),
    "embeddingsApiKey": ("embeddings", "value", "key-of-the-embeddings"),
}


def render(helm: Helm, home: Path, values: dict[str, Any]) -> list[Manifest]:
    run = helm.template(home, values=values)
    assert run.code == 0, run.err
    return read(run.out)


def values_with(secret: str, **of_secret: Any) -> dict[str, Any]:
    """The least values, in which one secret comes from elsewhere."""
    values = {name: dict(section) for name, section in LEAST.items()}
    section, inline, _ = VALUES[secret]
    if secret == "embeddingsApiKey":
        values["embeddings"] = {"apiKey": of_secret}
    else:
        values.setdefault(section, {}).pop(inline, None)
        values[section] = {**values.get(section, {}), **of_secret}
    return values


def places(found: list[Manifest], name: str, key: str) -> set[tuple[str, str]]:
    """Which workload gets which variable from a key of a Secret."""
    return {
        (owner.rpartition("memlane-")[2], variable["name"])
        for owner, pod in pods(found)
        for container in containers(pod)
        for variable in container.get("env", [])
        if variable.get("valueFrom", {}).get("secretKeyRef") == {"name": name, "key": key}
    }


@pytest.mark.parametrize("secret", VALUES)
def test_a_secret_of_the_operators_reaches_every_consumer(any_helm: Helm, home: Path, secret: str) -> None:
    found = render(any_helm, home, values_with(secret, existingSecret="mine", secretKey="my-key"))
    migrations = {("migrations", "DATABASE_URL")} if secret == "database" else set()
    assert places(found, "mine", "my-key") == CONSUMERS[secret] | migrations
    assert reference_faults(found, Outside(secrets={"mine": {"my-key"}})) == []


@pytest.mark.parametrize("secret", VALUES)
def test_a_secret_from_the_external_operator_reaches_every_consumer(any_helm: Helm, home: Path, secret: str) -> None:
    values = values_with(secret) | {
        "externalSecrets": {"enabled": True, "store": {"name": "vault"}, secret: {"key": "path/in/vault"}}
    }
    found = render(any_helm, home, values)
    made = {one["metadata"]["name"]: one for one in of_kind(found, "ExternalSecret")}
    (entry,) = made["memlane-external"]["spec"]["data"]
    assert entry["remoteRef"] == {"key": "path/in/vault"}
    assert places(found, "memlane-external", entry["secretKey"]) == CONSUMERS[secret]
    assert ("memlane-migrations" in made) == (secret == "database")
    assert reference_faults(found, Outside()) == []


@pytest.mark.parametrize("secret", VALUES)
def test_a_secret_that_the_chart_makes_reaches_every_consumer(any_helm: Helm, home: Path, secret: str) -> None:
    _, inline, value = VALUES[secret]
    found = render(any_helm, home, values_with(secret, **{inline: value}))
    data = named(found, "Secret", "-secrets")["data"]
    (key,) = [name for name, encoded in data.items() if base64.b64decode(encoded).decode() == value]
    assert places(found, "memlane-secrets", key) == CONSUMERS[secret]
    assert reference_faults(found, Outside()) == []


def test_the_migrations_get_a_connection_past_the_pooler(any_helm: Helm, home: Path) -> None:
    values = {**LEAST, "database": {**LEAST["database"], "pooler": "transaction"}}
    values["database"]["migrations"] = {"existingSecret": "direct", "secretKey": "url"}  # type: ignore[assignment]
    assert places(render(any_helm, home, values), "direct", "url") == {("migrations", "DATABASE_URL")}
    values["database"]["migrations"] = {"url": "postgresql://direct/memlane"}  # type: ignore[assignment]
    hook = named(render(any_helm, home, values), "Secret", "-migrations")
    assert base64.b64decode(hook["data"]["DATABASE_URL"]).decode() == "postgresql://direct/memlane"


def test_no_value_of_a_secret_stands_outside_a_secret(any_helm: Helm, home: Path) -> None:
    values = {name: dict(section) for name, section in LEAST.items()}
    values["joinSecrets"] = {"value": VALUES["joinSecrets"][2]}
    values["embeddings"] = {"apiKey": {"value": VALUES["embeddingsApiKey"][2]}}  # type: ignore[dict-item]
    values["metrics"] = {"dashboard": {"enabled": True}}  # type: ignore[dict-item]
    found = render(any_helm, home, values)
    outside = str([one for one in found if one["kind"] != "Secret"])
    inside = str(of_kind(found, "Secret"))
    for _, _, value in VALUES.values():
        encoded = base64.b64encode(value.encode()).decode()
        assert value not in outside
        assert encoded not in outside
        assert encoded in inside


def test_a_changed_secret_restarts_the_pods_and_its_checksum_is_salted(any_helm: Helm, home: Path) -> None:
    """Without a cluster the salt is made anew: nobody can compare a guess with the checksum."""
    found = [render(any_helm, home, LEAST) for _ in range(2)]
    sums = [
        {
            pod["metadata"]["annotations"]["checksum/secrets"]
            for owner, pod in pods(one)
            if owner.startswith("Deployment") and "embeddings" not in owner
        }
        for one in found
    ]
    assert [len(one) for one in sums] == [1, 1]
    assert sums[0] != sums[1]


def test_the_made_join_secret_is_long_and_the_same_everywhere_in_one_rendering(any_helm: Helm, home: Path) -> None:
    found = render(any_helm, home, LEAST)
    secrets = {
        one["metadata"]["name"]: {key: base64.b64decode(text).decode() for key, text in one["data"].items()}
        for one in of_kind(found, "Secret")
    }
    assert len(secrets["memlane-secrets"]["MEMLANE_JOIN_SECRETS"]) == 48
    api = environment(named(found, "Deployment", "app-api")["spec"]["template"], secrets)
    assert api["MEMLANE_JOIN_SECRETS"] == secrets["memlane-secrets"]["MEMLANE_JOIN_SECRETS"]
