"""A run to play with."""

from __future__ import annotations

from pathlib import Path

import pytest
from trained_runs import TrainedRuns

from attribune.apps.playground import Session


@pytest.fixture(scope="module")
def run(trained_runs: TrainedRuns) -> Path:
    """A run with three kinds of attributes; what is typed for a price is a number of a bin."""
    return trained_runs("injector", "--multi-label", "tags:;", "--numeric", "price", "--no-baselines")


@pytest.fixture(scope="module")
def session(run: Path) -> Session:
    return Session.open(run)
