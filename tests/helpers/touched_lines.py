"""A plugin of pytest that records which lines of the package each test runs, for ``benchmarks/mistakes.py``.

    TOUCHED=FOLDER pytest -p touched_lines ...

It needs the package ``coverage``; each worker writes one file into the folder. Lines that other processes run are not
seen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

_QUIET = ["no-data-collected", "module-not-imported", "module-not-measured", "already-imported", "dynamic-conflict"]


class TouchedLines:
    """Switches the context of the coverage to the test that begins."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    """Begin, in the processes that run tests."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import coverage

    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    measure = coverage.Coverage(data_file=str(Path(os.environ["TOUCHED"]) / worker), source_pkgs=["attribune"])
    measure.set_option("run:disable_warnings", _QUIET)
    config.pluginmanager.register(TouchedLines(measure))
