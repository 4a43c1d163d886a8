"""`memlane doctor --config-only`: settings and license, without reaching anything."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from memlane.cli.doctor import doctor
from support.service import Deployment

DEPLOYMENT = Deployment("postgresql://memlane:hunter2@db/memlane")


def examined(environment: Mapping[str, str]) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, findings by check, and all that was printed."""
    ran = CliRunner(env=dict.fromkeys(DEPLOYMENT.environment()) | dict(environment)).invoke(
        doctor, ["--config-only", "--json"]
    )
    return ran.exit_code, {one["check"]: one for one in json.loads(ran.output)["findings"]}, ran.output


def test_complete_settings_with_a_good_license_pass() -> None:
    code, findings, _ = examined(DEPLOYMENT.environment(MEMLANE_LICENSE=DEPLOYMENT.license(ends_in=timedelta(days=90))))
    assert code == 0
    assert {name: one["state"] for name, one in findings.items()} == {"settings": "ok", "license": "ok"}
    assert "acme" in findings["license"]["detail"]


def test_a_license_that_ends_within_30_days_is_a_warning_and_no_failure() -> None:
    code, findings, _ = examined(DEPLOYMENT.environment(MEMLANE_LICENSE=DEPLOYMENT.license(ends_in=timedelta(days=3))))
    assert (code, findings["license"]["state"]) == (0, "warning")


@pytest.mark.parametrize(
    ("license_", "reason"),
    [
        (DEPLOYMENT.license(starts_in=timedelta(days=-9), ends_in=timedelta(days=-1)), "expired"),
        (DEPLOYMENT.license(starts_in=timedelta(days=9)), "not_yet_valid"),
        (DEPLOYMENT.license(features={}), "feature memory"),
        (DEPLOYMENT.license(features={"memory": False}), "feature memory"),
    ],
    ids=["expired", "early", "without", "off"],
)
def test_a_license_that_does_not_hold_fails_with_its_reason_and_is_not_shown(license_: str, reason: str) -> None:
    code, findings, printed = examined(DEPLOYMENT.environment(MEMLANE_LICENSE=license_))
    assert (code, findings["license"]["state"]) == (1, "failed")
    assert reason in findings["license"]["detail"]
    assert license_ not in printed


@pytest.mark.parametrize(
    ("license_", "reason"),
    [(DEPLOYMENT.license()[:-8], "bad_signature"), ("a.b.c", "malformed")],
    ids=["cut", "rubbish"],
)
def test_a_license_that_is_none_is_a_wrong_setting_and_is_not_shown(license_: str, reason: str) -> None:
    code, findings, printed = examined(DEPLOYMENT.environment(MEMLANE_LICENSE=license_))
    assert (code, list(findings)) == (78, ["MEMLANE_LICENSE"])
    assert reason in findings["MEMLANE_LICENSE"]["detail"]
    assert license_ not in printed


def test_a_managed_deployment_has_no_license_to_check() -> None:
    code, findings, _ = examined(
        DEPLOYMENT.environment(MEMLANE_DEPLOYMENT_MODE="managed", MEMLANE_LICENSE="", MEMLANE_LICENSE_KEYS="")
    )
    assert (code, set(findings)) == (0, {"settings"})


def test_wrong_settings_exit_78_and_show_no_value() -> None:
    code, findings, printed = examined({"DATABASE_URL": "mysql://memlane:hunter2@db/memlane"})
    assert code == 78
    assert findings["DATABASE_URL"]["state"] == "failed"
    assert "hunter2" not in printed
