"""The settings of `memlane dev`, which come from no environment."""

from pathlib import Path

import pytest

from memlane.cli.dev import _settings
from memlane.cli.dev_state import load_dev_state

DSN = "postgresql:///memlane"


def test_dev_has_no_rate_and_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMLANE_RATE_PER_USER", "MEMLANE_RATE_LANE_WRITES", "MEMLANE_MAX_LIVE_MEMORIES"):
        monkeypatch.setenv(name, "1")
    settings = _settings(DSN, load_dev_state(tmp_path / "dev.json"))
    assert (settings.rate_per_user, settings.rate_lane_writes, settings.max_live_memories) == (None, None, None)


def test_dev_listens_on_loopback_alone(tmp_path: Path) -> None:
    settings = _settings(DSN, load_dev_state(tmp_path / "dev.json"))
    assert settings.host == "127.0.0.1"
    assert settings.metrics_port is None
