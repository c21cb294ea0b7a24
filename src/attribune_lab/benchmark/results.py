"""The folder of a benchmark, what its cells hold, and which cells remain; read without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from attribune.core.arrays import Array
from attribune.core.checksums import CheckedFiles
from attribune.core.config import read_record
from attribune.core.job_folder import JobFolder
from attribune.data.clusters import clustered, unpacked_clusters
from attribune.errors import ConfigError, ModelFolderError
from attribune.metrics.bootstrap import Interval, PairedResult, interval, paired
from attribune.metrics.formulas import log_loss, pooled
from attribune.metrics.metric import Metric
from attribune.runs.results import RunResults
from attribune.tasks import Task, task_from_dict
from attribune.tasks.base import LOSS, validation_score
from attribune_lab.benchmark.experiment import Cell, Experiment, SelectBy

CELL, METRICS = "cell.json", "metrics.json"
IDENTITY = "identity"


@dataclass(frozen=True)
class BenchmarkFolder(JobFolder):
    """Paths inside the folder of a benchmark: the experiment, finished ``cells``, and ``work`` in progress."""

    contents = "benchmark"
    plan_name = "experiment.yaml"

    def begin(self, experiment: Experiment) -> None:
        """Write the experiment, or check that it only adds sets, folds and settings to the one in the folder.

        Raises:
            ConfigError: for another experiment.
        """
        self.refuse_foreign()
        with self.held(wait=True):  # several machines may start at the same time
            earlier = Experiment.read(self.plan_file) if self.is_begun else None
            changed = None if earlier is None else _changes(earlier, experiment)
            if changed:
                raise ConfigError(
                    f"{self.path} was started with another experiment ({changed}): choose another folder, or restore "
                    "the recipe; sets, folds and settings may be added, but not changed or removed"
                )
            if experiment != earlier:
                self.write_plan(experiment.to_yaml().encode())

    def experiment(self) -> Experiment:
        """Read the experiment; ModelFolderError for a folder without one."""
        if not self.is_begun:
            raise ModelFolderError(
                f"{self.path} is not the folder of a benchmark, it has no {self.plan_name}: give a folder that "
                "`attribune benchmark run` wrote"
            )
        return Experiment.read(self.plan_file)

    def place(self, cell: Cell) -> Path:
        """Return the folder of a cell's results."""
        return self.path / "cells" / cell.path

    def work(self, cell: Cell) -> Path:
        """Return the folder in which a cell is trained."""
        return self.path / "work" / cell.path

    def lock(self, cell: Cell) -> Path:
        """Return the file that a process locks while it trains a cell."""
        return self.path / "work" / f"{cell.path}.lock"

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell has its results."""
        return (self.place(cell) / CELL).is_file()

    def results(self, experiment: Experiment) -> Iterator[CellResult]:
        """Yield all cells that are done, trials included."""
        for cell in experiment.cells():
            if self.is_done(cell):
                yield CellResult(cell, self.place(cell))


def _changes(earlier: Experiment, later: Experiment) -> str | None:
    """Name a difference that is not an addition; None without any."""
    for name in ("name", "methods", "data", "backbone", "training", "rates"):
        if getattr(earlier, name) != getattr(later, name):
            return name
    settings = {setting.name: setting for setting in later.settings}
    for setting in earlier.settings:
        other = settings.get(setting.name)
        if other is None or other.model_copy(update={"series": setting.series, "at": setting.at}) != setting:
            return f"setting {setting.name!r}"
    sets = {plan.name: plan for plan in later.sets}
    for plan in earlier.sets:
        also = sets.get(plan.name)
        if also is None or also.model_copy(update={"folds": plan.folds}) != plan:
            return f"set {plan.name!r}"
        if lacking := set(plan.folds) - set(also.folds):
            return f"fold {min(lacking)} of the set {plan.name!r}"
    return None


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """What the training of a cell took.

    Attributes:
        factor: of the method's learning rates; None without a search for them.
        learning_rate: None for a baseline, as is `backbone_learning_rate`.
        seconds: including reading and scoring.
        peak_mb: peak of the resident memory, if known.
        data: checksum of the rows.
        finished: time in UTC.
        failure: why it has no scores.
    """

    factor: float | None = None
    learning_rate: float | None = None
    backbone_learning_rate: float | None = None
    seconds: float
    peak_mb: float | None = None
    data: str
    environment: dict[str, Any] | None
    finished: str
    failure: str | None = None


@dataclass(frozen=True)
class CellResult:
    """The results of one cell."""

    cell: Cell
    folder: Path

    @cached_property
    def record(self) -> CellRecord:
        """What its training took."""
        return read_record(self.folder / CELL, CellRecord, what="record of the cell")

    @cached_property
    def metrics(self) -> RunResults:
        """The results of the run."""
        CheckedFiles(self.folder).check(METRICS)  # no RunFolder, which needs the libraries that load models
        return RunResults.read(self.folder / METRICS)

    @cached_property
    def task(self) -> Task:
        """The task of the run."""
        return task_from_dict(self.metrics.task)

    def scores(self, part: str) -> dict[str, Array]:
        """Read rows, labels and logits of a part."""
        return self.task.codec.unpacked(self._arrays(f"{part}_logits"))

    def validation_score(self, by: SelectBy) -> float:
        """Return the log loss or the main metric of the validation rows, of which lower is better."""
        scores = self.scores("validation")
        chosen = LOSS if by == "log_loss" else by
        return validation_score(self.task, scores["logits"], scores["labels"], by=chosen)

    def facts(self) -> dict[str, Array]:
        """Return words and training counts of the test rows."""
        return {name: values for name, values in self._test_facts.items() if name != IDENTITY}

    def identities(self) -> Array:
        """Return the index in the complete data set of each test row."""
        return self._test_facts[IDENTITY]

    @cached_property
    def _test_facts(self) -> dict[str, Array]:
        return self._arrays("test_facts")

    def _arrays(self, name: str) -> dict[str, Array]:
        """Read a file of the cell; ModelFolderError where it is missing or damaged."""
        file = self.folder / f"{name}.safetensors"
        try:
            CheckedFiles(self.folder).check(file.name)
            return load_file(str(file))
        except (FileNotFoundError, SafetensorError, ModelFolderError) as error:
            why = "its checksum is another" if isinstance(error, ModelFolderError) else str(error)
            found = "is missing" if isinstance(error, FileNotFoundError) else f"is damaged ({why})"
            raise ModelFolderError(
                f"{file} {found}: restore it, or delete {self.folder} and train the cell again with "
                "`attribune benchmark run`"
            ) from error


@dataclass(frozen=True)
class Group:
    """The cells of one set and setting, one for each fold or seed, whose rows are pooled."""

    results: tuple[CellResult, ...]

    @property
    def folds(self) -> tuple[int, ...]:
        """The folds or seeds."""
        return tuple(result.cell.fold for result in self.results)

    def on(self, folds: Sequence[int]) -> Group:
        """Return the group of some folds."""
        return Group(tuple(result for result in self.results if result.cell.fold in folds))

    def metrics(self, part: str = "test", rows: Sequence[Array] | None = None) -> dict[str, Metric]:
        """Pool every metric over the rows of all folds; `rows` is a mask of the rows of each fold.

        A test row that was scored by several seeds counts once in an interval.
        """
        by_fold: list[dict[str, Metric]] = []
        keys: list[Array] = []
        for index, result in enumerate(self.results):
            scores = result.scores(part)
            chosen = slice(None) if rows is None else rows[index]
            if len(scores["labels"][chosen]):
                metrics = _metrics(result.task, scores["logits"][chosen], scores["labels"][chosen])
                clusters = {name: kind[chosen] for name, kind in unpacked_clusters(scores).items()}
                by_fold.append(clustered(metrics, clusters))
                keys.append(self._identities(part, index)[chosen])
        names = [name for name in by_fold[0] if all(name in metrics for metrics in by_fold)]
        return {name: pooled([metrics[name] for metrics in by_fold], keys) for name in names}

    def row_count(self, part: str = "test") -> int:
        """Return the number of rows of all folds; one that several seeds scored counts once."""
        return len(np.unique(np.concatenate([self._identities(part, index) for index in range(len(self.results))])))

    def cluster_names(self, part: str = "test") -> tuple[str, ...]:
        """Return the kinds of clusters of the rows."""
        return tuple(unpacked_clusters(self.results[0].scores(part)))

    def _identities(self, part: str, index: int) -> Array:
        """Return the index in the complete data set of each row of one fold's part."""
        if part == "test":
            return self.results[index].identities()
        scores = self.results[index].scores(part)
        rows = scores["rows"].astype(np.int64)
        return rows if _same_rows(self.results[0].scores(part), scores) else rows + (index << 40)

    def intervals(self, part: str = "test") -> dict[str, Interval]:
        """Return every metric with its 95 % interval."""
        return {name: interval(metric) for name, metric in self.metrics(part).items()}

    def against(self, other: Group, *, part: str = "test", only: str | None = None) -> dict[str, PairedResult]:
        """Compare every metric, or `only` one, on the common folds with the paired bootstrap; empty without any.

        Raises:
            ConfigError: if the two were not scored on the same rows.
        """
        folds = [fold for fold in self.folds if fold in other.folds]
        for mine, its in zip(self.on(folds).results, other.on(folds).results, strict=True):
            if not _same_rows(mine.scores(part), its.scores(part), equal_nan=True):
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

    def validation_score(self, by: SelectBy) -> float:
        """Return the mean of `validation_score` over the folds: lower is better."""
        scores = [result.validation_score(by) for result in self.results]
        return float(np.mean([score if math.isfinite(score) else math.inf for score in scores]))

    def best_fold(self, by: SelectBy) -> Group:
        """Return the group of the one fold or seed with the lowest `validation_score`."""
        return min((self.on([fold]) for fold in self.folds), key=lambda group: group.validation_score(by))

    @property
    def main_metric(self) -> str:
        """The main metric of the task."""
        return self.results[0].metrics.main_metric


def _same_rows(scores: Mapping[str, Array], others: Mapping[str, Array], *, equal_nan: bool = False) -> bool:
    return all(
        np.array_equal(scores[name], others[name], equal_nan=equal_nan and scores[name].dtype.kind == "f")
        for name in ("rows", "labels")
    )


def _metrics(task: Task, logits: Array, labels: Array) -> dict[str, Metric]:
    """Return the metrics of the task and, with one known class per row, the log loss of its probabilities."""
    metrics = task.metrics(logits, labels)
    if labels.ndim == 1 and labels.dtype.kind == "i" and labels.min(initial=0) >= 0:
        loss = log_loss(labels, logits)
        metrics = {**metrics, loss.name: loss}
    return metrics


def best_factor(folder: BenchmarkFolder, trials: Sequence[Cell], *, by: SelectBy) -> float:
    """Return the factor of the learning rates whose trial has the lowest `validation_score`."""
    by_factor = {}
    for trial in trials:
        result = CellResult(trial, folder.place(trial))
        score = math.inf
        if not result.record.failure:
            score = result.validation_score(by)
        by_factor[float(trial.factor or 1.0)] = score if math.isfinite(score) else math.inf
    if min(by_factor.values()) == math.inf:
        raise ConfigError(
            f"no trial of {trials[0].set.name}, {trials[0].setting.name} gave a finite loss: lower the learning rate"
        )
    return min(by_factor, key=lambda factor: (by_factor[factor], factor))


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a benchmark.

    Args:
        done: cells with results.
        left: cells without.
        seconds: of one process for the remaining cells, estimated from those that are done; None without any.
    """

    done: tuple[Cell, ...]
    left: tuple[Cell, ...]
    seconds: float | None

    def text(self, *, workers: int = 1) -> str:
        """Return the state in one line."""
        total = len(self.done) + len(self.left)
        line = f"{len(self.done)} of {total} cells done"
        if not self.left:
            return line
        if self.seconds is None:
            return f"{line}; no estimate before the first is"
        return f"{line}; about {duration(self.seconds / workers)} left with {workers} at a time"


def status_of(folder: BenchmarkFolder, experiment: Experiment | None = None) -> Status:
    """Read the state of a folder, or of a part of its experiment; ModelFolderError if it holds no benchmark."""
    cells = list((experiment or folder.experiment()).cells())
    done = [cell for cell in cells if folder.is_done(cell)]
    left = [cell for cell in cells if not folder.is_done(cell)]
    took = [(cell, CellResult(cell, folder.place(cell)).record.seconds) for cell in done]
    seconds = sum(_estimate(cell, took) for cell in left) if took else None
    return Status(done=tuple(done), left=tuple(left), seconds=seconds)


def _estimate(cell: Cell, took: Sequence[tuple[Cell, float]]) -> float:
    """Return the mean seconds of the most similar cells: same set and setting, else same set, else all."""
    same_set = [(other, s) for other, s in took if other.set.name == cell.set.name]
    same_setting = [(other, s) for other, s in same_set if other.setting.name == cell.setting.name]
    return fmean(s for _, s in same_setting or same_set or took)


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
