"""Both helms, and a home for them."""

from pathlib import Path

import pytest

from chart.helms import SOURCES, Helm, helm


@pytest.fixture(scope="session", params=sorted(SOURCES), ids=lambda major: f"helm{major}")
def any_helm(request: pytest.FixtureRequest) -> Helm:
    """Helm 3, then Helm 4."""
    return helm(request.param)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home for helm."""
    return tmp_path_factory.mktemp("helm-home")
