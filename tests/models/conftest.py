from __future__ import annotations

from pathlib import Path

import pytest
from trained_runs import TrainedRuns


@pytest.fixture(scope="session")
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone()
