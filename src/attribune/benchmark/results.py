"""The folder of a benchmark, and what its cells hold; read without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from attribune.benchmark.experiment import Cell, Experiment
from attribune.core.files import read_json
from attribune.core.job_folder import JobFolder
from attribune.errors import ConfigError, ModelFolderError
from attribune.metrics.bootstrap import Interval, PairedResult, interval, paired
from attribune.metrics.formulas import Metric, log_loss, pooled
from attribune.runs.results import RunResults
from attribune.tasks import Task, task_from_dict
from attribune.tasks.selection import validation_score

__all__ = ["CELL", "IDENTITY", "BenchmarkFolder", "CellResult", "Group", "best_factor"]

CELL = "cell.json"
IDENTITY = "identity"
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BenchmarkFolder(JobFolder):
    """Paths inside the folder of a benchmark: the experiment, ``cells`` that are done, ``work`` in progress."""

    contents = "benchmark"
    plan_name = "experiment.yaml"

    def begin(self, experiment: Experiment) -> None:
        """Write the experiment, or check that it is the one with which the folder was begun.

        Sets, folds and settings may be added later; what is there stays as it is.

        Raises:
            ConfigError: for another experiment.
        """
        self.refuse_foreign()
        with self.held(wait=True):  # several machines may begin at once
            earlier = Experiment.read(self.plan_file) if self.is_begun else None
            changed = None if earlier is None else _changes(earlier, experiment)
            if changed:
                raise ConfigError(
                    f"{self.path} was begun with another experiment ({changed}): choose another folder, or bring the "
                    "recipe back; sets, folds and settings may be added, not changed or taken away (--sets runs some)"
                )
            if experiment != earlier:
                self.write_plan(experiment.to_yaml().encode())

    def experiment(self) -> Experiment:
        """The experiment.

        Raises:
            ModelFolderError: for a folder without one.
        """
        if not self.is_begun:
            raise ModelFolderError(
                f"{self.path} is not the folder of a benchmark, it has no {self.plan_name}: give a folder that "
                "`attribune benchmark run` wrote"
            )
        return Experiment.read(self.plan_file)

    def place(self, cell: Cell) -> Path:
        """Where a cell's results are when it is done."""
        return self.path / "cells" / cell.path

    def work(self, cell: Cell) -> Path:
        """Where it is trained."""
        return self.path / "work" / cell.path

    def lock(self, cell: Cell) -> Path:
        """The file that a process holds while it trains the cell."""
        return self.path / "work" / f"{cell.path}.lock"

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell has its results."""
        return (self.place(cell) / CELL).is_file()

    def results(self, experiment: Experiment) -> Iterator[CellResult]:
        """All cells that are done, trials too."""
        for cell in experiment.cells():
            if self.is_done(cell):
                yield CellResult(cell, self.place(cell))


def _changes(earlier: Experiment, later: Experiment) -> str | None:
    """What differs beyond additions; None for nothing."""
    for name in ("name", "methods", "data", "backbone", "training", "rates"):
        if getattr(earlier, name) != getattr(later, name):
            return name
    settings = {setting.name: setting for setting in later.settings}
    for setting in earlier.settings:
        if settings.get(setting.name) != setting:
            return f"setting {setting.name!r}"
    sets = {plan.name: plan for plan in later.sets}
    for plan in earlier.sets:
        other = sets.get(plan.name)
        if other is None or other.model_copy(update={"folds": plan.folds}) != plan:
            return f"set {plan.name!r}"
        if lacking := set(plan.folds) - set(other.folds):
            return f"fold {min(lacking)} of the set {plan.name!r}"
    return None


@dataclass(frozen=True)
class CellResult:
    """The results of one cell."""

    cell: Cell
    folder: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """Learning rates, seconds, memory, device, checksum of the data."""
        return dict(read_json(self.folder / CELL, what="record of the cell"))

    @cached_property
    def metrics(self) -> RunResults:
        """The results of the run."""
        return RunResults.read(self.folder / "metrics.json")

    @cached_property
    def task(self) -> Task:
        """What was predicted."""
        return task_from_dict(self.metrics.task)

    def scores(self, part: str) -> dict[str, Array]:
        """Rows, labels and logits of a part."""
        return load_file(str(self.folder / f"{part}_logits.safetensors"))

    def facts(self) -> dict[str, Array]:
        """Words and training counts of the test rows."""
        return {name: values for name, values in self._test_facts.items() if name != IDENTITY}

    def identities(self) -> Array:
        """Which row of the whole data set each test row is."""
        return self._test_facts[IDENTITY]

    @cached_property
    def _test_facts(self) -> dict[str, Array]:
        return load_file(str(self.folder / "test_facts.safetensors"))


@dataclass(frozen=True)
class Group:
    """The cells of one set and setting, whose rows are pooled.

    Args:
        results: one for each fold or seed, in their order.
    """

    results: tuple[CellResult, ...]

    @property
    def folds(self) -> tuple[int, ...]:
        """Which folds or seeds there are."""
        return tuple(result.cell.fold for result in self.results)

    def on(self, folds: Sequence[int]) -> Group:
        """The same on some folds."""
        return Group(tuple(result for result in self.results if result.cell.fold in folds))

    def metrics(self, part: str = "test", rows: Sequence[Array] | None = None) -> dict[str, Metric]:
        """Every metric over the rows of all folds; with `rows`, a mask for each fold, over those alone.

        A test row that several seeds were scored on counts once in an interval.
        """
        found: list[dict[str, Metric]] = []
        keys: list[Array] = []
        for place, result in enumerate(self.results):
            scores = result.scores(part)
            chosen = slice(None) if rows is None else rows[place]
            if len(scores["labels"][chosen]):
                found.append(_metrics(result.task, scores["logits"][chosen], scores["labels"][chosen]))
                keys.append(self._identities(part, place)[chosen])
        names = [name for name in found[0] if all(name in one for one in found)]
        return {name: pooled([one[name] for one in found], keys) for name in names}

    def _identities(self, part: str, place: int) -> Array:
        """Which row of the whole data set each row of one fold's part is."""
        if part == "test":
            return self.results[place].identities()
        first, mine = (result.scores(part) for result in (self.results[0], self.results[place]))
        rows = mine["rows"].astype(np.int64)
        same = all(np.array_equal(first[name], mine[name]) for name in ("rows", "labels"))
        return rows if same else rows + (place << 40)

    def intervals(self, part: str = "test") -> dict[str, Interval]:
        """Every metric with its 95 % interval."""
        return {name: interval(metric) for name, metric in self.metrics(part).items()}

    def against(self, other: Group, *, part: str = "test", only: str | None = None) -> dict[str, PairedResult]:
        """The difference of every metric on the folds that both have, with the paired bootstrap; nothing without any.

        Args:
            other: what it is compared with.
            part: whose rows.
            only: the one metric to compare, which is faster.

        Raises:
            ConfigError: where the two were not scored on the same rows.
        """
        folds = [fold for fold in self.folds if fold in other.folds]
        for mine, its in zip(self.on(folds).results, other.on(folds).results, strict=True):
            a, b = mine.scores(part), its.scores(part)
            if not all(
                np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f") for name in ("rows", "labels")
            ):
                raise ConfigError(
                    f"{mine.cell.path} and {its.cell.path} were scored on different {part} rows, so that they cannot "
                    "be compared: give all settings the same text, label and missing values"
                )
        if not folds:
            return {}
        ours, theirs = (group.on(folds).metrics(part) for group in (self, other))
        return {
            name: paired(metric, theirs[name])
            for name, metric in ours.items()
            if name in theirs and only in (None, name)
        }

    @property
    def main_metric(self) -> str:
        """Of the task."""
        return self.results[0].metrics.main_metric


def _metrics(task: Task, logits: Array, labels: Array) -> dict[str, Metric]:
    """Those of the task and, where there is one known class per row, the log loss of its probabilities."""
    found = task.metrics(logits, labels)
    if labels.ndim == 1 and labels.dtype.kind == "i" and labels.min(initial=0) >= 0:
        loss = log_loss(labels, logits)
        found = {**found, loss.name: loss}
    return found


def best_factor(folder: BenchmarkFolder, trials: Sequence[Cell]) -> float:
    """The factor of the learning rates with the lowest log loss on validation rows, or the best main metric without."""
    found = {}
    for trial in trials:
        result = CellResult(trial, folder.place(trial))
        score = math.inf
        if not result.record.get("failure"):
            scores = result.scores("validation")
            score = validation_score(result.task, scores["logits"], scores["labels"])
        found[float(trial.factor or 1.0)] = score if math.isfinite(score) else math.inf
    if min(found.values()) == math.inf:
        raise ConfigError(
            f"no trial of {trials[0].set.name}, {trials[0].setting.name} gave a finite loss: lower the learning rate"
        )
    return min(found, key=lambda factor: (found[factor], factor))
