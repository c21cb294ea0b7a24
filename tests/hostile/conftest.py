"""Commands that must fail with one clear message, and finished runs to damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_runs
from attacks import NEW, write_experiment
from commands import attribune, fails  # noqa: F401  fixtures
from lab_methods import HAS_LAB
from token_tables import questions, tagged_words, write_json_lines
from trained_runs import ROWS, TrainedRuns


@pytest.fixture(scope="session")
def runs(trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table data.csv and finished runs on it: injector, none and linear."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "data.csv").symlink_to(trained_runs.table(ROWS))
    for method in ("injector", "none", "linear"):
        trained_runs.copy(trained_runs(method), folder / method)
    return folder


@pytest.fixture(scope="session")
def attacked(trained_runs: TrainedRuns, backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What attacks begin with: tables, a backbone and a finished run."""
    folder = tmp_path_factory.mktemp("attacked")
    trained_runs.copy(backbone, folder / "backbone")
    trained_runs.copy(trained_runs("injector"), folder / "run")
    small_runs.write_csv(folder / "data.csv", ROWS)
    small_runs.write_csv(folder / "new.csv", NEW)
    write_json_lines(folder / "tags.jsonl", tagged_words(40))
    write_json_lines(folder / "spans.jsonl", questions(40, unanswerable=0.25))
    if HAS_LAB:
        import published

        published.write_source(folder / "source", "critics")
        write_experiment(folder, folder / "experiment.yaml")
    return folder


@pytest.fixture
def train(tmp_path: Path, backbone: Path) -> Callable[..., list[str]]:
    """The words of a training on rows, or on a file with the given content."""

    def words(table: Any = None, *more: object, name: str = "data.csv", method: str = "injector") -> list[str]:
        path = tmp_path / name
        if isinstance(table, str | bytes):
            path.write_bytes(table if isinstance(table, bytes) else table.encode())
        else:
            small_runs.write_csv(path, ROWS if table is None else table)
        given = small_runs.train_command(path, tmp_path / "run", backbone=backbone, method=method)
        return _with(given, [str(word) for word in more])

    return words


def _with(given: list[str], more: list[str]) -> list[str]:
    """Add words; a column flag among them takes the place of the same flag, to which it would add columns."""
    for flag in {"--text", "--label", "--attributes"}.intersection(more):
        place = given.index(flag)
        del given[place : place + 2]
    return [*given, *more]
