"""The Containerfile, as far as it can be judged without an engine: its words, its sources, its ports."""

import re

import yaml

from chart.helms import ROOT
from chart.manifests import StrictLoader
from memlane.cli.main import cli
from memlane.config import DEFAULT_PORTS

TEXT = (ROOT / "Containerfile").read_text()
WORDS = [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", " ", TEXT).splitlines() if line and line[0] != "#"]


def of(instruction: str) -> list[str]:
    return [rest for word, rest in WORDS if word == instruction]


def test_every_stage_stands_on_the_one_pinned_base() -> None:
    (pinned,) = of("ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=docker\.io/library/python:\d+\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", pinned)
    assert of("FROM") == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]


def test_the_image_runs_as_the_user_of_the_chart_and_not_as_root() -> None:
    values = yaml.load((ROOT / "charts/memlane/values.yaml").read_text(), Loader=StrictLoader)  # noqa: S506 - a SafeLoader
    safety = values["podSecurity"]
    assert of("USER") == [f"{safety['runAsUser']}:{safety['runAsGroup']}"]
    last = [word for word, _ in WORDS]
    assert last.index("USER") > last.index("COPY", last.index("LABEL"))


def test_nothing_is_added_from_the_net_and_nothing_but_the_program_is_copied() -> None:
    assert of("ADD") == []
    taken = [source for rest in of("COPY") if "--from" not in rest for source in rest.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for source in taken:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored
    assert ignored[0] == "*"


def test_the_sbom_that_the_label_names_is_made() -> None:
    (place,) = re.findall(r'io\.memlane\.sbom="([^"]+)"', TEXT)
    assert f"--output-file {place}" in TEXT


def test_the_health_check_and_the_entry_are_commands_of_the_program() -> None:
    assert of("ENTRYPOINT") == ['["memlane"]']
    (health,) = of("HEALTHCHECK")
    assert health.endswith('CMD ["memlane", "probe"]')
    assert "probe" in cli.commands
    assert of("EXPOSE") == [" ".join(str(port) for port in DEFAULT_PORTS.values())]
