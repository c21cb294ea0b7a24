from __future__ import annotations

from pathlib import Path

import pytest
from commands import attribune, fails  # noqa: F401  fixtures
from trained_runs import TrainedRuns


@pytest.fixture
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone()
