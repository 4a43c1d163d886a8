"""`memlane license keygen|mint|verify`: what the issuer and the operator of a deployment type."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memlane.cli.license import license_group
from memlane.config import ConfigurationFaults


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return tmp_path / "license-key.pem"


def run(*arguments: str | Path, **env: str) -> Result:
    settings = {"MEMLANE_LICENSE": None, "MEMLANE_LICENSE_KEYS": None, **env}
    return CliRunner(env=settings).invoke(license_group, [str(one) for one in arguments])


def minted(pem: Path, *more: str) -> tuple[str, str]:
    """The public line of a new key, and a license that it signed."""
    public = run("keygen", "--out", pem).output.strip()
    license_ = run("mint", "--private-key", pem, "--organization", "acme", *more).output.strip()
    return public, license_


def test_a_minted_license_verifies_and_says_what_it_grants(pem: Path) -> None:
    public, license_ = minted(pem, "--days", "90", "--plan", "team")
    ran = run("verify", "--json", MEMLANE_LICENSE=license_, MEMLANE_LICENSE_KEYS=public)
    assert ran.exit_code == 0
    report = json.loads(ran.output)
    assert report["valid"] is True
    assert (report["organization"], report["plan"], report["features"]) == ("acme", "team", {"memory": True})
    assert report["keyId"] == "main"
    assert license_ not in ran.output


def test_the_plain_report_shows_the_same(pem: Path) -> None:
    public, license_ = minted(pem)
    ran = run("verify", MEMLANE_LICENSE=license_, MEMLANE_LICENSE_KEYS=public)
    assert ran.exit_code == 0
    for word in ("organization", "acme", "expiresAt", "memory"):
        assert word in ran.output


def test_the_private_key_is_its_owners_alone_and_never_printed_nor_overwritten(pem: Path) -> None:
    ran = run("keygen", "--out", pem)
    assert stat.S_IMODE(pem.stat().st_mode) == 0o600
    private = pem.read_text()
    assert private.splitlines()[1] not in ran.output
    again = run("keygen", "--out", pem)
    assert again.exit_code == 1
    assert "choose another file" in again.output
    assert pem.read_text() == private


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    ran = run("keygen", "--out", tmp_path / "nowhere" / "key.pem")
    assert (ran.exit_code, "cannot be written" in ran.output) == (1, True)


def test_several_features_may_be_granted(pem: Path) -> None:
    public, license_ = minted(pem, "--feature", "memory", "--feature", "insights")
    report = json.loads(run("verify", "--json", MEMLANE_LICENSE=license_, MEMLANE_LICENSE_KEYS=public).output)
    assert report["features"] == {"memory": True, "insights": True}


@pytest.mark.parametrize(
    "wrong",
    [("--organization", "Not A Slug"), ("--feature", "no spaces allowed"), ("--key-id", "a:b"), ("--plan", "a b")],
    ids=lambda one: one[0],
)
def test_a_license_that_no_deployment_would_take_is_not_minted(pem: Path, wrong: tuple[str, str]) -> None:
    run("keygen", "--out", pem)
    ran = run("mint", "--private-key", pem, "--organization", "acme", *wrong)
    assert ran.exit_code == 1
    assert "ey" not in ran.stdout[:2]


def test_a_file_that_is_no_private_key_mints_nothing(tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("not a key")
    ran = run("mint", "--private-key", rubbish, "--organization", "acme")
    assert (ran.exit_code, "not an unencrypted PEM private key" in ran.output) == (1, True)
    rubbish.write_bytes(b"\xff\xfe")
    ran = run("mint", "--private-key", rubbish, "--organization", "acme")
    assert (ran.exit_code, "not an unencrypted PEM private key" in ran.output, "codec" in ran.output) == (
        1,
        True,
        False,
    )


@pytest.mark.parametrize("key_id", ["a:b,c", "", "a b", "ü", "x" * 65])
def test_a_key_id_that_no_deployment_could_name_makes_no_key(pem: Path, key_id: str) -> None:
    ran = run("keygen", "--key-id", key_id, "--out", pem)
    assert (ran.exit_code, "--key-id" in ran.output, "1 to 64" in ran.output) == (2, True, True)
    assert not pem.exists()


def test_a_license_of_a_stranger_is_rejected_with_exit_code_1_and_its_reason(pem: Path, tmp_path: Path) -> None:
    _, license_ = minted(pem)
    public, _ = minted(tmp_path / "other.pem")
    ran = run("verify", MEMLANE_LICENSE=license_, MEMLANE_LICENSE_KEYS=public)
    assert (ran.exit_code, "bad_signature" in ran.output) == (1, True)
    unknown = run("verify", MEMLANE_LICENSE=license_, MEMLANE_LICENSE_KEYS=public.replace("main:", "next:"))
    assert (unknown.exit_code, "unknown_key" in unknown.output) == (1, True)


def test_both_settings_are_missed_at_once() -> None:
    fault = run("verify").exception
    assert isinstance(fault, ConfigurationFaults)
    assert [one.name for one in fault.faults] == ["MEMLANE_LICENSE", "MEMLANE_LICENSE_KEYS"]
