"""What an experiment takes: cells and steps, and after short trainings hours; and what its test rows can show."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from attribune.core.progress import Reporter
from attribune.core.wording import counted
from attribune.errors import ConfigError
from attribune.metrics.tables import text_cells
from attribune.runs.recipe import TrainingRecipe
from attribune.training.train import train
from attribune_lab.benchmark.experiment import Cell, Experiment, SetPlan, Setting
from attribune_lab.benchmark.results import duration
from attribune_lab.benchmark.runner import recipe_of
from attribune_lab.benchmark.source import SetSource
from attribune_lab.datasets.prepared import PreparedFolder

_SCORED = 128  # validation rows that a probe scores
_FIRST = 4  # steps of a probe that are slower than later ones
_COST = ("steps at most", "time at most")
_DISAGREEMENT = 0.1
"""Share of the test rows on which one of two settings is right and the other is not, as in most of the small tables."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds until a training begins, of a step, and of a row that is scored."""

    start: float
    step: float
    row: float

    def times(self, mine: Pace, other: Pace) -> Pace:
        """Return this pace, changed as `mine` is to `other`; what comes before a training stays."""
        return Pace(start=self.start, step=self.step * mine.step / other.step, row=self.row * mine.row / other.row)


@dataclass(frozen=True, kw_only=True)
class SetRows:
    """The rows of each part of a set on one fold, and the test rows of all folds, each once."""

    train: int
    validation: int
    test: int
    all_tests: int

    @classmethod
    def of(cls, experiment: Experiment, plan: SetPlan) -> SetRows | None:
        """Count them; None for a set that is not prepared."""
        if plan.prepared is not None and not PreparedFolder(Path(plan.prepared)).is_finished:
            return None
        source = SetSource(plan)
        cell = Cell(set=plan, setting=experiment.settings[0], fold=plan.folds[0])
        _, tables = source.tables(recipe_of(experiment, cell, source), cell.fold, trial=False)
        counts = {name: len(tables[name]) if name in tables else 0 for name in ("train", "validation", "test")}
        is_folded = source.prepared is not None and source.prepared.folds > 0
        return cls(**counts, all_tests=counts["test"] * (len(plan.folds) if is_folded else 1))


@dataclass(frozen=True, kw_only=True)
class Part:
    """The cells of one set and setting.

    Args:
        cells: those that are scored, one for each fold or seed.
        trials: of learning rates.
        rows: None where the set is not prepared.
    """

    set: SetPlan
    setting: Setting
    cells: int
    trials: int
    training: TrainingRecipe
    rows: SetRows | None

    @property
    def steps(self) -> int | None:
        """The most steps of a training; 0 for a baseline, None where they follow from rows that are not there."""
        if self.setting.is_baseline:
            return 0
        if self.training.steps is not None:
            return self.training.steps
        if self.rows is None:
            return None
        return math.ceil(self.training.epochs_of(self.rows.train) * self.training.steps_per_epoch(self.rows.train))

    @property
    def checks(self) -> int:
        """The most checks on the validation rows."""
        if self.training.evaluate_every != "epoch":
            return max(1, (self.steps or 0) // self.training.evaluate_every)
        if self.rows is None:
            return 1
        return max(1, math.ceil((self.steps or 0) / self.training.steps_per_epoch(self.rows.train)))

    def seconds(self, pace: Pace, *, early: bool = False) -> float:
        """Return the seconds of all cells at a pace; with `early`, if no check is better than the first."""
        assert self.steps is not None
        assert self.rows is not None
        checks = min(self.checks, 1 + self.training.patience) if early else self.checks
        steps = self.steps * checks / self.checks
        training = pace.start + steps * pace.step + checks * self.rows.validation * pace.row
        scoring = (self.rows.validation + self.rows.test) * pace.row
        return (self.cells + self.trials) * training + self.cells * scoring


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the cells of an experiment take at most: early stopping ends many trainings before.

    Args:
        paces: by the names of set and setting; empty before any was measured.
    """

    experiment: Experiment
    parts: tuple[Part, ...]
    paces: Mapping[tuple[str, str], Pace] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """The sets whose rows are not there."""
        return tuple(dict.fromkeys(part.set.name for part in self.parts if part.rows is None))

    def seconds(self, parts: Sequence[Part], *, early: bool = False) -> float | None:
        """Return the seconds of some parts, as `Part.seconds`; None where one of them has no pace."""
        trained = [part for part in parts if not part.setting.is_baseline]
        paces = [self.paces.get((part.set.name, part.setting.name)) for part in trained]
        return (
            None
            if None in paces
            else math.fsum(
                part.seconds(pace, early=early) for part, pace in zip(trained, paces, strict=True) if pace is not None
            )
        )

    def text(self) -> str:
        """Return it for a terminal."""
        total = sum(part.cells + part.trials for part in self.parts)
        trials = sum(part.trials for part in self.parts)
        steps = _total(self.parts)
        head = f"{self.experiment.name}: {counted(total, 'cell')}, {trials:,} of them trials of learning rates"
        lines = [f"{head}, {'steps unknown' if steps is None else f'at most {steps:,} steps'}"]
        lines += ["", text_cells(_filled(self._by_set())), "", text_cells(_filled(self._by_setting()))]
        there = [part for part in self.parts if part.set.name not in self.missing]
        fewest, most = (self.seconds(there, early=early) for early in (True, False))
        if self.paces and fewest is not None and most is not None:
            of_which = f" for {_count(there)} of the cells, of the sets that are prepared" if self.missing else ""
            span = f"{duration(fewest)} to {duration(most)}"
            lines += ["", f"{span} with one cell at a time, by when trainings stop early{of_which}"]
        return "\n".join([*lines, *self._notes()])

    def _by_set(self) -> list[list[str]]:
        rows = [["set", "cells", "training rows", "test rows", "shows from", *_COST]]
        for plan in self.experiment.sets:
            parts = [part for part in self.parts if part.set.name == plan.name]
            known = parts[0].rows
            counts = ["", "", ""]
            if known is not None and known.all_tests:
                gap = 100 * 1.96 * math.sqrt(_DISAGREEMENT / known.all_tests)
                counts = [f"{known.train:,}", f"{known.all_tests:,}", f"{gap:.1f} points"]
            rows.append([plan.name, _count(parts), *counts, *self._cost(parts)])
        return rows

    def _by_setting(self) -> list[list[str]]:
        rows = [["setting", "cells", "seconds a step", *_COST]]
        for setting in self.experiment.settings:
            parts = [part for part in self.parts if part.setting.name == setting.name]
            paces = [self.paces[key] for part in parts if (key := (part.set.name, setting.name)) in self.paces]
            steps = [f"{pace.step:.3g}" for pace in paces]
            between = dict.fromkeys([min(steps, key=float), max(steps, key=float)]) if steps else []
            rows.append([setting.name, _count(parts), " to ".join(between), *self._cost(parts)])
        return rows

    def _cost(self, parts: Sequence[Part]) -> list[str]:
        steps, seconds = _total(parts), self.seconds(parts) if self.paces else None
        return ["" if steps is None else f"{steps:,}", "" if seconds is None else duration(seconds)]

    def _notes(self) -> list[str]:
        notes = []
        if any(part.rows for part in self.parts):
            notes.append(
                f"shows from: a difference of accuracy that excludes zero, if of two settings one alone is right on "
                f"{100 * _DISAGREEMENT:.0f} % of the rows"
            )
        if baselines := [one.name for one in self.experiment.settings if one.is_baseline]:
            notes.append(f"without steps, and not in the time: {', '.join(baselines)}")
        if self.missing:
            notes.append(
                f"not prepared, so that rows are unknown (`attribune data prepare`): {', '.join(self.missing)}"
            )
        return ["", *notes] if notes else []


def _filled(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return a table without the columns that are empty below their head."""
    return [
        list(line) for line in zip(*(column for column in zip(*table, strict=True) if any(column[1:])), strict=True)
    ]


def _count(parts: Sequence[Part]) -> str:
    return f"{sum(part.cells + part.trials for part in parts):,}"


def _total(parts: Sequence[Part]) -> int | None:
    """Return the steps of all trainings; None where those of one are unknown."""
    each = [(part.steps, part.cells + part.trials) for part in parts]
    return None if any(steps is None for steps, _ in each) else sum((steps or 0) * count for steps, count in each)


def make_plan(experiment: Experiment) -> Plan:
    """Count the cells of an experiment, their rows and steps; of a set that is not prepared, no rows."""
    cells = list(experiment.cells())
    parts = []
    for plan in experiment.sets:
        rows = SetRows.of(experiment, plan)
        for setting in experiment.settings:
            own = [cell for cell in cells if (cell.set.name, cell.setting.name) == (plan.name, setting.name)]
            trials = sum(cell.factor is not None for cell in own)
            training = TrainingRecipe.from_dict(
                experiment.training_of(own[-1]), source=f"the training of {setting.name}"
            )
            counts = {"cells": len(own) - trials, "trials": trials}
            parts.append(Part(set=plan, setting=setting, training=training, rows=rows, **counts))
    return Plan(experiment=experiment, parts=tuple(parts))


def with_paces(plan: Plan, steps: int, *, tell: Callable[[Cell, str], None]) -> Plan:
    """Measure by short trainings how fast each set and setting is.

    Each set is probed with one setting, and each setting on one set; what a setting changes there is taken for what it
    changes on the other sets.

    Args:
        steps: of a probe.
        tell: is called with a cell and a message about it.
    """
    experiment = plan.experiment
    sets = [one for one in experiment.sets if one.name not in plan.missing]
    settings = [one for one in experiment.settings if not one.is_baseline]
    found: dict[tuple[str, str], Pace] = {}
    for one in sets:
        for setting in settings:
            if one is sets[0] or setting is settings[0]:
                cell = Cell(set=one, setting=setting, fold=one.folds[0])
                found[one.name, setting.name] = pace = probe(experiment, cell, steps)
                tell(cell, f"{pace.step:.3g} s a step, {pace.row:.3g} s a row that is scored")
    for one in sets[1:]:
        for setting in settings[1:]:
            mine, other = (found[sets[0].name, name] for name in (setting.name, settings[0].name))
            found[one.name, setting.name] = found[one.name, settings[0].name].times(mine, other)
    return replace(plan, paces=found)


def check_probe(steps: int) -> None:
    """Raise a ConfigError for fewer steps than can be timed."""
    if steps <= _FIRST:
        raise ConfigError(f"a probe of {steps} steps is too short to be timed: give at least {_FIRST + 1}")


def probe(experiment: Experiment, cell: Cell, steps: int) -> Pace:
    """Train a cell for some steps, in a folder that is removed; its rows are those of the cell.

    Raises:
        ConfigError: for fewer steps than can be timed.
    """
    check_probe(steps)
    clock = _Clock()
    source = SetSource(cell.set)
    recipe, tables = source.tables(recipe_of(experiment, cell, source), cell.fold, trial=True)
    scored = tables["validation"].select(range(min(_SCORED, len(tables["validation"]))))
    changes = {"steps": steps, "evaluate_every": steps}
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, Path(folder) / "run", tables=tables | {"validation": scored}, baselines=False, reporter=clock)
    return clock.pace(len(scored))


class _Clock(Reporter):
    """Takes the times of a training."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._steps: list[float] = []

    def started(self, *, done: int, total: int, epochs: float | None = None) -> None:
        self._started = time.perf_counter()

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        self._steps.append(time.perf_counter())

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        self._checked = time.perf_counter()

    def pace(self, rows: int) -> Pace:
        """Return what was found, with a check of so many rows after the last step."""
        counted = self._steps[_FIRST - 1 :]
        return Pace(
            start=self._started - self._begun,
            step=(counted[-1] - counted[0]) / (len(counted) - 1),
            row=(self._checked - counted[-1]) / rows,
        )
