"""`memlane api` refuses to start when a setting is missing or wrong, says everything at once, and exits 78."""

import asyncio
import json
import re
import socket
from datetime import timedelta
from pathlib import Path

import httpx

from integration.cli.shell import memlane
from memlane.auth.licenses import generate_keypair
from support.service import JOIN_SECRET, Deployment, api_process, free_port, headers_of

REQUIRED = (
    "DATABASE_URL",
    "MEMORY_EMBEDDINGS_URL",
    "MEMORY_EMBEDDING_MODEL",
    "MEMORY_EMBEDDING_DIMENSIONS",
    "MEMLANE_DEPLOYMENT_MODE",
    "MEMLANE_JOIN_SECRETS",
    "MEMLANE_LICENSE",
    "MEMLANE_LICENSE_KEYS",
)
PASSWORD = "hunter2-of-the-database"


async def test_with_nothing_set_every_required_setting_is_named_and_the_exit_code_is_78() -> None:
    ran = await memlane("api")
    assert ran.code == 78
    for name in REQUIRED:
        assert f"{name} " in ran.err, ran.err
    assert ran.err.count("is required") == len(REQUIRED)
    assert ran.out == ""


async def test_a_managed_deployment_misses_no_license() -> None:
    ran = await memlane("api", env={"MEMLANE_DEPLOYMENT_MODE": "managed"})
    assert ran.code == 78
    assert "MEMLANE_LICENSE" not in ran.err


async def test_many_wrong_values_are_told_at_once_with_reasons_and_without_the_values() -> None:
    wrong = {
        "DATABASE_URL": f"mysql://memlane:{PASSWORD}@db/memlane",
        "MEMORY_EMBEDDINGS_URL": "tei.internal:8080",
        "MEMORY_EMBEDDING_DIMENSIONS": "three hundred",
        "MEMLANE_DEPLOYMENT_MODE": "on-the-moon",
        "MEMLANE_JOIN_SECRETS": "too-short-to-sign",
        "MEMLANE_PORT": "4201/tcp",
    }
    ran = await memlane("api", env=wrong)
    assert ran.code == 78
    for name, value in wrong.items():
        assert name in ran.err
        assert value not in ran.said
    assert PASSWORD not in ran.said


async def test_wrong_values_that_only_their_users_can_tell_are_told_at_once_and_by_the_doctor_too() -> None:
    deployment = Deployment(f"postgresql://memlane:{PASSWORD}@db/memlane?sslmode=bogus")
    public = generate_keypair().public
    wrong = {
        "MEMLANE_JOIN_SECRETS": f"{JOIN_SECRET},{JOIN_SECRET}",
        "MEMLANE_LICENSE_KEYS": f"test:{public},test:{public}",
        "MEMORY_EMBEDDINGS_URL": f"http://user:{PASSWORD}@tei:80",
        "MEMORY_EMBEDDINGS_API_KEY": "schlüssel-geheim",
        "MEMLANE_RERANKER_URL": "http://reranker:0/",
        "REDIS_URL": f"redis://:{PASSWORD}@redis:6379/0?socket_timeout=soon",
    }
    environment = deployment.environment(**wrong)
    ran = await memlane("api", "--port", str(free_port()), env=environment)
    assert ran.code == 78
    told = dict(re.findall(r"^  ([A-Z_]+)  +(.+)$", ran.err, re.MULTILINE))
    assert told.keys() == {"DATABASE_URL", *wrong}
    for words in (("--config-only",), ()):
        looked = await memlane("doctor", "--json", *words, env=environment)
        assert looked.code == 78
        assert {one["check"]: one["detail"] for one in json.loads(looked.out)["findings"]} == told
        for secret in (PASSWORD, JOIN_SECRET, public, "geheim", "reranker:0"):
            assert secret not in ran.said + looked.said


async def test_a_taken_port_ends_the_start_with_78_and_says_what_to_do(lone_deployment: Deployment) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        ran = await memlane("api", "--host", "127.0.0.1", "--port", port, env=lone_deployment.environment())
    assert ran.code == 78
    assert port in ran.err
    assert "--port" in ran.err


async def test_a_taken_metrics_port_ends_the_start_with_78_and_says_so(lone_deployment: Deployment) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        environment = lone_deployment.environment(MEMLANE_METRICS_PORT=port, MEMLANE_HOST="127.0.0.1")
        ran = await memlane("api", "--host", "127.0.0.1", "--port", str(free_port()), env=environment)
    assert ran.code == 78
    assert port in ran.err


async def test_a_license_that_no_trusted_key_signed_ends_the_start_of_every_role_with_78(
    lone_deployment: Deployment,
) -> None:
    edited = lone_deployment.license()[:-8]
    for role in ("api", "gateway", "worker"):
        environment = lone_deployment.environment(MEMLANE_LICENSE=edited, REDIS_URL="redis://127.0.0.1:9/0")
        ran = await memlane(role, "--port", str(free_port()), env=environment)
        assert ran.code == 78
        assert re.search(r"^  MEMLANE_LICENSE  bad_signature: ", ran.err, re.MULTILINE), ran.err
        assert "1 setting(s)" in ran.err
        assert edited not in ran.said


async def test_a_license_that_has_ended_does_not_end_the_start_but_is_logged_and_denies(
    lone_deployment: Deployment,
) -> None:
    ended = lone_deployment.license(starts_in=timedelta(days=-9), ends_in=timedelta(seconds=-1))
    key = await lone_deployment.key()
    environment = lone_deployment.environment(MEMLANE_LICENSE=ended, MEMLANE_DRAIN_SECONDS="0")
    async with api_process(environment) as api, httpx.AsyncClient(base_url=api.url) as client:
        logged = [json.loads(line) for line in api.log.splitlines() if "license_rejected" in line]
        assert [line["reason"] for line in logged] == ["expired"]
        assert (await client.get("/api/memories", headers=headers_of(key))).status_code == 404
        assert await asyncio.to_thread(api.terminate) == 0


async def test_a_started_process_has_logged_no_secret_of_its_settings(lone_deployment: Deployment) -> None:
    environment = lone_deployment.environment(MEMLANE_LOG_LEVEL="DEBUG", MEMLANE_DRAIN_SECONDS="0")
    async with api_process(environment) as api:
        assert await asyncio.to_thread(api.terminate) == 0
        for secret in (JOIN_SECRET, environment["MEMLANE_LICENSE"], lone_deployment.dsn):
            assert secret not in api.log


async def test_a_file_that_cannot_be_written_is_told_by_every_command(
    lone_deployment: Deployment, tmp_path: Path
) -> None:
    place = str(tmp_path / "nope" / "x")
    for words in (("ledger", "heads"), ("backup",), ("license", "keygen")):
        ran = await memlane(*words, "--out", place, env=lone_deployment.environment())
        assert (ran.code, "No such file or directory" in ran.err, place in ran.err) == (1, True, True), ran.said


async def test_a_database_that_refuses_the_url_is_a_wrong_setting_for_every_command_that_runs_once(
    lone_deployment: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    environment = lone_deployment.environment(DATABASE_URL=lone_deployment.dsn.replace("memlane@/", "hunter2@/"))
    for words in (("migrate",), ("import", "--project", "shop", str(tmp_path / "empty")), ("projects", "list")):
        ran = await memlane(*words, env=environment)
        assert (ran.code, "DATABASE_URL" in ran.err, "hunter2" in ran.said) == (78, True, False), ran.said


async def test_an_unknown_command_is_wrong_usage() -> None:
    ran = await memlane("fly")
    assert ran.code == 2
    assert "fly" in ran.err


async def test_help_lists_every_command() -> None:
    ran = await memlane("--help")
    assert ran.code == 0
    for command in ("api", "dev", "doctor", "export", "import", "keys", "license", "migrate"):
        assert f"  {command} " in ran.out
