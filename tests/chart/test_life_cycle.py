"""A release from its install to its end, by the unmodified helms against a cluster in memory.

The pods of hooks are run for real where it says so: `memlane migrate` on a Postgres, `memlane probe` on processes that
were started with the variables of the Deployments.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from chart.cases import LEAST
from chart.cluster import Cluster, PodRun
from chart.cluster_server import served
from chart.helms import CHART, Helm, Run
from chart.manifests import Manifest
from support.embedding_server import EmbeddingServer
from support.postgres import fresh_database, private_server
from support.redis import redis_server
from support.service import Deployment, api_process, free_port, headers_of

KUBERNETES = {3: "1.28", 4: "1.37"}
EXTERNAL = {"embeddings": {"external": {"url": "https://api.example.com/v1", "model": "hosted", "dimensions": 1536}}}


@dataclass
class Hooks:
    """Runs the pods that end: the code that a test says, or the program itself with names of Services resolved."""

    codes: dict[str, int] = field(default_factory=dict)
    resolved: dict[str, str] = field(default_factory=dict)
    real: bool = False
    said: list[str] = field(default_factory=list)

    def __call__(self, run: PodRun) -> int:
        if not self.real:
            return self.codes.get(run.words[0], 0)
        words = [self.resolve(word) for word in run.words]
        found = subprocess.run(
            [sys.executable, "-m", "memlane", *words],
            env={"PATH": os.environ["PATH"], **run.environment},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        self.said.append(found.stdout + found.stderr)
        return found.returncode

    def resolve(self, text: str) -> str:
        """What the cluster's DNS would do."""
        for name, address in self.resolved.items():
            text = text.replace(name, address)
        return text


@dataclass
class Release:
    """A release in a cluster of its own."""

    helm: Helm
    cluster: Cluster
    hooks: Hooks
    home: Path
    name: str = "memlane"

    def run(self, act: str, *words: str, values: Mapping[str, Any] | None = None) -> Run:
        """Run helm; ``values`` go over the least ones."""
        if values is None:
            return self.helm.run(act, self.name, *words, "-n", "memory", home=self.home)
        stdin = json.dumps(_merged(LEAST, values))
        return self.helm.run(act, self.name, str(CHART), *words, "-n", "memory", "-f", "-", home=self.home, stdin=stdin)

    def done(self, act: str, *words: str, values: Mapping[str, Any] | None = None) -> str:
        """Run helm and expect success; gives what it said."""
        found = self.run(act, *words, values=values)
        assert found.code == 0, found.err
        return found.out

    def deployments(self) -> dict[str, Manifest]:
        """The specs of the Deployments by the end of their names."""
        found = {}
        for one in self.cluster.list("deployments", "memory"):
            found[one["metadata"]["name"].rpartition("memlane-")[2]] = one["spec"]
        return found

    def templates(self) -> dict[str, Manifest]:
        """The pods of the Deployments: a change of one restarts it."""
        return {name: spec["template"] for name, spec in self.deployments().items()}

    def secret(self, key: str) -> str:
        """A value of the chart's Secret, encoded."""
        return str(self.cluster.get("secrets", "memory", "memlane-secrets")["data"][key])

    def environment(self, component: str) -> dict[str, str]:
        """What a pod of a Deployment would get."""
        return self.cluster.env_of("memory", self.templates()[component]["spec"])


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, Mapping):
        return new
    return old | {key: _merged(old.get(key), value) for key, value in new.items()}


@pytest.fixture
def release(any_helm: Helm, tmp_path: Path) -> Iterator[Release]:
    hooks = Hooks()
    cluster = Cluster(KUBERNETES[any_helm.major], hooks)
    with served(cluster, tmp_path):
        yield Release(any_helm, cluster, hooks, tmp_path)


def test_an_upgrade_to_a_hosted_embedder_and_the_way_back(release: Release) -> None:
    said = release.done("install", values={})
    assert "memlane keys create" in said
    assert release.cluster.names("persistentvolumeclaims") == ["memlane-embeddings"]
    before, join = release.templates(), release.secret("MEMLANE_JOIN_SECRETS")

    release.done("upgrade", values=EXTERNAL)
    assert sorted(release.deployments()) == ["app-api", "realtime-gateway", "worker"]
    assert release.cluster.names("persistentvolumeclaims") == []
    assert release.environment("app-api")["MEMORY_EMBEDDINGS_URL"] == "https://api.example.com/v1"
    assert release.secret("MEMLANE_JOIN_SECRETS") == join
    unchanged = ("realtime-gateway", "worker")
    assert {name: release.templates()[name] for name in unchanged} == {name: before[name] for name in unchanged}

    release.done("rollback", "1")
    assert release.templates() == before
    assert release.cluster.names("persistentvolumeclaims") == ["memlane-embeddings"]
    assert release.environment("app-api")["MEMORY_EMBEDDINGS_URL"] == "http://memlane-embeddings:8080"


def test_the_migrations_run_before_anything_is_changed_and_what_they_needed_goes(release: Release) -> None:
    seen: list[list[str]] = []
    release.cluster.runner = lambda run: seen.append([run.words[0], *release.cluster.names("deployments")]) or 0
    release.done("install", values={})
    assert seen == [["migrate"]]
    assert release.cluster.names("jobs") == ["memlane-migrations"]
    assert [name for name in release.cluster.names("secrets") if "sh.helm" not in name] == ["memlane-secrets"]
    assert "memlane-migrations" not in release.cluster.names("serviceaccounts")


def test_a_failing_migration_leaves_the_running_release_as_it_was(release: Release) -> None:
    release.done("install", values={})
    before = release.cluster.list("deployments", "memory")
    release.hooks.codes["migrate"] = 75
    failed = release.run("upgrade", values={"image": {"tag": "0.2.0"}})
    assert failed.code == 1
    assert "pre-upgrade hooks failed" in failed.err
    assert release.cluster.list("deployments", "memory") == before

    release.done("rollback", "1")
    assert release.cluster.list("deployments", "memory") == before
    release.hooks.codes["migrate"] = 0
    release.done("upgrade", values={"image": {"tag": "0.2.0"}})
    assert release.templates()["app-api"]["spec"]["containers"][0]["image"].endswith(":0.2.0")
    # Helm 3.18 leaves a hook's Secret behind when a later hook fails; the next run takes it away.
    assert [name for name in release.cluster.names("secrets") if "sh.helm" not in name] == ["memlane-secrets"]


def test_after_a_failed_upgrade_to_other_objects_an_upgrade_with_the_former_values_heals(release: Release) -> None:
    """Helm 3.18 cannot roll back then: it looks for what the failed revision never took away."""
    release.done("install", values={})
    before = release.templates()
    release.hooks.codes["migrate"] = 75
    assert release.run("upgrade", values=EXTERNAL).code == 1
    release.hooks.codes["migrate"] = 0
    release.done("upgrade", values={})
    assert release.templates() == before
    assert release.cluster.names("persistentvolumeclaims") == ["memlane-embeddings"]


def test_a_failing_migration_of_an_install_starts_nothing_and_can_be_tried_again(release: Release) -> None:
    release.hooks.codes["migrate"] = 1
    assert release.run("install", values={}).code == 1
    assert release.cluster.names("deployments") == []
    release.done("uninstall")
    release.hooks.codes["migrate"] = 0
    release.done("install", values={})
    assert len(release.deployments()) == 4


def test_an_uninstall_leaves_the_log_of_the_migrations_alone(release: Release) -> None:
    release.done("install", values={"ingress": {"enabled": True, "host": "memory.example.com"}})
    release.done("test")
    release.done("uninstall")
    left = {kind: release.cluster.names(kind) for kind in {kind for kind, _, _ in release.cluster.objects}}
    assert left == {
        "namespaces": ["default", "memory"],
        "serviceaccounts": ["default"],
        "jobs": ["memlane-migrations"],
        "pods": ["memlane-test"],
    }


def test_a_failing_test_pod_fails_helm_test(release: Release) -> None:
    release.done("install", values={})
    release.hooks.codes["probe"] = 1
    failed = release.run("test")
    assert failed.code == 1
    assert "memlane-test" in failed.out + failed.err


def test_a_changed_secret_restarts_who_reads_it_and_a_repeated_upgrade_restarts_nobody(release: Release) -> None:
    release.done("install", values={})
    first = release.templates()
    release.done("upgrade", values={})
    assert release.templates() == first
    release.done("upgrade", values={"redis": {"url": "redis://other/0"}})
    changed = {name for name, template in release.templates().items() if template != first[name]}
    assert changed == {"app-api", "realtime-gateway", "worker"}


def test_a_changed_secret_of_the_operators_restarts_who_reads_it(release: Release) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": {"REDIS_URL": "YQ=="}}
    release.cluster.create("secrets", "memory", secret)
    values = {"redis": {"url": "", "existingSecret": "mine"}}
    release.done("install", values=values)
    first = release.templates()
    release.done("upgrade", values=values)
    assert release.templates() == first
    release.cluster.replace("secrets", "memory", "mine", {**secret, "data": {"REDIS_URL": "Yg=="}})
    release.done("upgrade", values=values)
    changed = {name for name, template in release.templates().items() if template != first[name]}
    assert changed == {"app-api", "realtime-gateway"}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("r" * 53, {}),
        ("memlane", {"fullnameOverride": "n" * 63}),
        ("memlane", {"image": {"tag": "1.2.3+build.5"}, "commonLabels": {"example.com/build": 5}}),
    ],
    ids=["release name of 53", "full name of 63", "plus in the tag"],
)
def test_long_names_and_a_plus_live_through_it_all(release: Release, name: str, values: dict[str, Any]) -> None:
    release.name = name
    release.done("install", values=values)
    release.done("upgrade", values=_merged(EXTERNAL, values))
    release.done("test")
    release.done("rollback", "1")
    assert len(release.cluster.names("deployments")) == 4
    release.done("uninstall")
    assert release.cluster.names("deployments") == []


def test_a_service_named_prometheus_in_the_namespace_disturbs_nobody(release: Release) -> None:
    ports = [{"port": 9090, "targetPort": 9090}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "prometheus"}, "spec": {"ports": ports}}
    release.cluster.create("services", "memory", service)
    release.done("install", values={})
    for component, template in release.templates().items():
        assert "PROMETHEUS_PORT" not in release.environment(component)
        linked = {**template["spec"], "enableServiceLinks": True}
        assert release.cluster.env_of("memory", linked)["PROMETHEUS_PORT"] == "tcp://10.0.0.1:9090"


@asynccontextmanager
async def started(release: Release) -> AsyncIterator[dict[str, str]]:
    """Start api and gateway with the variables of their Deployments; gives their addresses."""
    async with AsyncExitStack() as stack:
        found = {}
        for component, role in (("app-api", "api"), ("realtime-gateway", "gateway")):
            environment = {key: release.hooks.resolve(value) for key, value in release.environment(component).items()}
            environment |= {"PATH": os.environ["PATH"], "MEMLANE_METRICS_PORT": str(free_port())}
            process = await stack.enter_async_context(api_process(environment, role=role))
            found[component] = process.url
        yield found


async def test_the_release_works_on_real_parts_through_install_upgrade_and_roll_back(release: Release) -> None:
    """Postgres, Redis, embedders, processes and hooks are real; only the cluster is not."""
    async with (
        private_server() as postgres,
        redis_server() as redis,
        EmbeddingServer("tei") as tei,
        EmbeddingServer("openai") as hosted,
    ):
        dsn = await fresh_database(postgres)
        deployment = Deployment(dsn)
        release.hooks.real = True
        release.hooks.resolved["http://memlane-embeddings:8080"] = tei.url
        values = {
            "database": {"url": dsn},
            "redis": {"url": redis.url},
            "license": {"token": deployment.license(), "keys": f"test:{deployment.signer.public}"},
            "settings": {"drainSeconds": 0},
        }
        await asyncio.to_thread(release.done, "install", values=values)
        assert "Applied" in release.hooks.said[-1]
        key = await deployment.key()
        first = await _works(release, key, "The kettle is blue.")

        external = {"url": hosted.url, "model": hosted.model, "dimensions": 384}
        upgraded = _merged(values, {"embeddings": {"external": external}})
        await asyncio.to_thread(release.done, "upgrade", values=upgraded)
        assert "up to date" in release.hooks.said[-1]
        hosted.calls.clear()
        second = await _works(release, key, "The cup is green.")
        assert hosted.calls

        gone = _merged(upgraded, {"database": {"url": f"{dsn}_none"}})
        failed = await asyncio.to_thread(release.run, "upgrade", values=gone)
        assert failed.code == 1
        assert "memlane:" in release.hooks.said[-1]

        await asyncio.to_thread(release.done, "rollback", "1")
        third = await _works(release, key, "The plate is red.")
        assert first < second < third


async def _works(release: Release, key: str, content: str) -> int:
    """Save and recall through the processes of the release, run its test, and give the channel's seq."""
    async with started(release) as urls, httpx.AsyncClient(timeout=20) as client:
        port = {"app-api": 4201, "realtime-gateway": 4401}
        for component, url in urls.items():
            release.hooks.resolved[f"http://memlane-{component}:{port[component]}"] = url
        await asyncio.to_thread(release.done, "test")
        answer = await client.post(
            f"{urls['app-api']}/api/memories",
            headers=headers_of(key),
            json={"content": content, "kind": "topical"},
        )
        assert answer.status_code == 201, answer.text
        return int(answer.json()["seq"])
