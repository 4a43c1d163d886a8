"""Chart and program cannot drift apart: what a pod would get as its environment is given to the program."""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from chart.cases import EXAMPLES, OUTSIDE
from chart.helms import CHART, ROOT, Helm
from chart.manifests import containers, environment, named, of_kind, pods, read
from memlane.cli.main import cli
from memlane.config import EXIT_MISCONFIGURED, Role
from memlane.preflight import load_settings
from support.service import JOIN_SECRET, Deployment

REAL = {
    "DATABASE_URL": "postgresql://memlane:pass@postgres.data:5432/memlane",
    "REDIS_URL": "redis://redis.data:6379/0",
    "MEMLANE_JOIN_SECRETS": JOIN_SECRET,
    "MEMORY_EMBEDDINGS_API_KEY": "key",
    "api-key": "key",
}

LISTENS_EVERYWHERE = {"MEMLANE_HOST"}
BY_EXTRA_ENV = {
    "MEMLANE_MAX_LIVE_MEMORIES", "MEMLANE_RATE_PER_USER", "MEMLANE_RATE_LANE_WRITES",
    "MEMLANE_JUDGE", "MEMLANE_JUDGE_URL", "MEMLANE_JUDGE_MODEL", "MEMLANE_JUDGE_API_KEY", "MEMLANE_JUDGE_BOUND",
    "MEMLANE_RERANKER_URL", "MEMLANE_RERANKER_API_KEY",
    "MEMORY_EARLIER_EMBEDDINGS_URL", "MEMORY_EARLIER_EMBEDDING_MODEL", "MEMORY_EARLIER_EMBEDDING_DIMENSIONS",
    "MEMORY_EARLIER_EMBEDDINGS_API_KEY",
}  # fmt: skip
"""Settings with a default that an operator may change by `api.extraEnv`."""
LEFT_OUT = LISTENS_EVERYWHERE | BY_EXTRA_ENV


def variables(helm: Helm, home: Path, example: str, ending: str, **more: Any) -> dict[str, str]:
    """What the role's container gets, with a real license and the operator's Secrets filled in."""
    deployment = Deployment("postgresql://unused/")
    token = deployment.license()
    values = {"license": {"keys": f"test:{deployment.signer.public}"}, **more}
    if example == "quickstart":
        values["license"]["token"] = token
    run = helm.template(home, CHART / "examples" / f"{example}.yaml", values=values)
    assert run.code == 0, run.err
    found = read(run.out)
    filled = {**REAL, "MEMLANE_LICENSE": token}
    secrets = {name: {key: filled.get(key, "") for key in keys} for name, keys in OUTSIDE[example].secrets.items()}
    for one in of_kind(found, "Secret"):
        decoded = {key: base64.b64decode(text).decode() for key, text in one["data"].items()}
        secrets[one["metadata"]["name"]] = decoded
    for one in of_kind(found, "ExternalSecret"):
        target = one["spec"]["target"]["name"]
        secrets[target] = {entry["secretKey"]: filled[entry["secretKey"]] for entry in one["spec"]["data"]}
    return environment(named(found, "Deployment", ending)["spec"]["template"], secrets)


def doctor(environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    run = subprocess.run(
        [sys.executable, "-m", "memlane", "doctor", "--config-only", "--json"],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.returncode, json.loads(run.stdout)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_doctor_is_content_with_what_app_api_gets(any_helm: Helm, home: Path, example: str) -> None:
    code, said = doctor(variables(any_helm, home, example, "app-api"))
    assert (code, said["ok"]) == (0, True), said


def test_the_doctor_is_not_content_without_one_of_them(any_helm: Helm, home: Path) -> None:
    found = variables(any_helm, home, "quickstart", "app-api")
    del found["MEMORY_EMBEDDING_DIMENSIONS"]
    code, said = doctor(found)
    assert code == 78
    assert [one["check"] for one in said["findings"]] == ["MEMORY_EMBEDDING_DIMENSIONS"]


@pytest.mark.parametrize(
    ("ending", "role"), [("app-api", "api"), ("realtime-gateway", "gateway"), ("worker", "worker")]
)
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_role_accepts_what_it_gets(any_helm: Helm, home: Path, example: str, ending: str, role: Role) -> None:
    found = variables(any_helm, home, example, ending)
    settings = load_settings(found, role=role)
    assert settings.metrics_port == 9464
    assert (settings.embeddings_url != "") == (role == "api")


def test_what_an_operator_sets_reaches_the_program(any_helm: Helm, home: Path) -> None:
    more = {
        "database": {"poolSize": "33", "pooler": "transaction"},
        "settings": {
            "logLevel": "WARNING",
            "sessionHours": 48,
            "drainSeconds": "7",
            "allowedOrigins": ["https://a.example", "https://b.example"],
            "mcpHosts": ["mcp.example", "mcp.example:8443"],
        },
        "embeddings": {
            "external": {"url": "https://api.example.com/v1", "model": "text-embedding-3-large", "dimensions": 3072}
        },
    }
    settings = load_settings(variables(any_helm, home, "quickstart", "app-api", **more))
    assert (settings.database_pool, settings.behind_pooler) == (33, True)
    assert (settings.log_level, settings.session_hours, settings.drain_seconds) == ("WARNING", 48, 7)
    assert settings.allowed_origins == {"https://a.example", "https://b.example"}
    assert (settings.embeddings_url, settings.embedding_model) == (
        "https://api.example.com/v1",
        "text-embedding-3-large",
    )
    assert settings.embedding_dimensions == 3072


def test_every_command_that_a_pod_runs_exists(any_helm: Helm, home: Path) -> None:
    run = any_helm.template(home, CHART / "examples" / "quickstart.yaml")
    spoken = {containers(pod)[0]["args"][0] for owner, pod in pods(read(run.out)) if not owner.endswith("embeddings")}
    assert spoken == {"api", "gateway", "worker", "migrate", "probe"}
    assert spoken <= cli.commands.keys()


def test_every_setting_of_the_program_is_set_by_the_chart_or_left_out_on_purpose(any_helm: Helm, home: Path) -> None:
    config = (ROOT / "server/memlane/config.py").read_text()
    settings = set(re.findall(r'"((?:MEMLANE|MEMORY|OTEL)_[A-Z_]+|DATABASE_URL|REDIS_URL)"', config))
    given = variables(any_helm, home, "production", "app-api").keys()
    assert len(settings) > 15
    assert settings - given == LEFT_OUT


@pytest.mark.parametrize(
    "path",
    [
        "docs/operations.md",
        "charts/memlane/README.md",
        "charts/memlane/templates/NOTES.txt",
        "charts/memlane/values.yaml",
    ],
)
def test_every_command_that_an_operator_is_told_to_type_exists(path: str) -> None:
    told = re.findall(r"(?:`|-- |…\s|database )memlane ([a-z-]+)(?: ([a-z]+))?", (ROOT / path).read_text())
    assert told
    for name, act in told:
        command = cli.commands[name]
        if isinstance(command, click.Group) and not command.invoke_without_command:
            assert act in command.commands


def test_a_migration_that_cannot_be_mended_by_trying_again_is_not_tried_again(any_helm: Helm, home: Path) -> None:
    found = read(any_helm.template(home, CHART / "examples" / "quickstart.yaml").out)
    (rule,) = named(found, "Job", "-migrations")["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == [EXIT_MISCONFIGURED]


def test_every_variable_that_the_chart_sets_is_one_that_the_program_reads() -> None:
    spoken = set(re.findall(r"name: ((?:MEMLANE|MEMORY)_\w+)", (CHART / "templates" / "_environment.tpl").read_text()))
    read_by = (ROOT / "server/memlane/config.py").read_text()
    assert len(spoken) > 10
    assert {name for name in spoken if f'"{name}"' not in read_by} == set()
