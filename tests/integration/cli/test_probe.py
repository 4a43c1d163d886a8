"""`memlane probe`: what a container's health check and `helm test` run."""

import os
import subprocess
import sys
from collections.abc import Mapping

from support.service import Deployment, api_process, free_port


def probe(*words: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "memlane", "probe", *words],
        env={"PATH": os.environ["PATH"], **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_a_probe_tells_a_serving_process_from_a_closed_port(lone_deployment: Deployment) -> None:
    closed = f"http://127.0.0.1:{free_port()}/api/ready"
    async with api_process(lone_deployment.environment()) as api:
        fine = probe(f"{api.url}/api/ready", f"{api.url}/api/live")
        assert (fine.returncode, fine.stdout) == (0, f"{api.url}/api/ready: ok\n{api.url}/api/live: ok\n")
        mixed = probe(f"{api.url}/api/ready", closed)
        assert mixed.returncode == 1
        assert f"{closed}: no answer (ConnectError)" in mixed.stdout
        own = probe(environment={"MEMLANE_PORT": api.url.rpartition(":")[2]})
        assert own.returncode == 0
    gone = probe(environment={"MEMLANE_PORT": api.url.rpartition(":")[2]})
    assert gone.returncode == 1


async def test_a_probe_names_the_dependency_that_does_not_answer(lone_deployment: Deployment) -> None:
    environment = lone_deployment.environment(REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
    async with api_process(environment) as api:
        found = probe(f"{api.url}/api/ready")
        assert found.returncode == 1
        assert "status 503" in found.stdout
        assert '"redis"' in found.stdout


def test_patience_is_for_a_process_that_is_about_to_start() -> None:
    found = probe("--patience", "1.5", f"http://127.0.0.1:{free_port()}/api/live")
    assert found.returncode == 1
