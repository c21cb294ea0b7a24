"""Choice of the method by a bake-off on validation rows: few rows for all methods, then more for the better half.

The cheapest method, the text alone and the default are in every round, and the budget is kept for them first: what
attributes give shows only on many rows. Test rows are never read. Each training is a run of its own in a hidden folder,
so that an interrupted bake-off goes on where it was.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from attribune.core.config import read_record
from attribune.core.files import read_json, write_json
from attribune.core.progress import Reporter
from attribune.data.clusters import clustered, unpacked_clusters
from attribune.errors import ConfigError, DataError
from attribune.methods import DEFAULT_METHOD
from attribune.metrics.metric import Metric, metric_info
from attribune.metrics.results import Comparison, compare_metrics
from attribune.metrics.tables import comparison_lines
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores
from attribune.tasks.base import selection_score
from attribune.tasks.capabilities import AUTO, require
from attribune.training.plan import DataPlan, comparison_recipes
from attribune.training.preparation import PreparedData, prepare, rows_digest, with_all_classes

AUTO_METHOD = "auto"
"""The name that stands for a bake-off."""
CANDIDATES = ("linear", "none", "in-text", "tokens", "pln", "plora", "modulated", DEFAULT_METHOD)
"""The methods of a bake-off, the simplest first; ``none`` is the text alone."""
_IN_EVERY_ROUND = ("linear", "none", DEFAULT_METHOD)  # without them no choice would say much
_FIRST_ROWS = 500  # of a large table's first round, or a sixteenth of it
_GROWTH = 4  # of the rows from round to round; the last round takes up to twice as many more, rather than leave some
_LEAST_GROWTH = 1.5  # without which a further round would say little more
_ROUNDS = 3
_UNITS = {"s": 1, "m": 60, "h": 3600}

Train = Callable[[Recipe, Path, Mapping[str, Any]], object]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One method in one round.

    Args:
        rows: training rows.
        score: by the metric that selects, on all validation rows; None for a failed training.
        error: reason of a failure.
    """

    method: str
    rows: int
    seconds: float
    score: float | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What came of a bake-off.

    Args:
        metric: by which methods were compared, on the validation rows.
        rounds: what was tried in each round.
        lines: all of it in sentences.
    """

    method: str
    metric: str
    rounds: tuple[tuple[Tried, ...], ...]
    lines: tuple[str, ...]

    def recipe(self, recipe: Recipe) -> Recipe:
        """Return a recipe with the chosen method."""
        return _with_method(recipe, self.method)

    @classmethod
    def read(cls, path: Path) -> Choice:
        """Read what `write` wrote."""
        return read_record(path, cls, what="result of the bake-off")

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        write_json(path, asdict(self), what="result of the bake-off", indent=1)


def read_budget(text: str) -> float:
    """Return the seconds of a time such as ``90s``, ``10m`` or ``2h``.

    Raises:
        ConfigError: for any other text.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds > 0:
        raise ConfigError(f"budget is {text!r}: give a time such as 90s, 10m or 2h")
    return seconds


def choose_method(
    recipe: Recipe,
    folder: Path,
    *,
    tables: Mapping[str, Any] | None,
    budget: float,
    train: Train,
    reporter: Reporter,
) -> Choice:
    """Train the candidates on the same rows, a round on more rows for the better half of them, and choose one.

    The choice is the simplest method within a standard error of the best of the last round on the validation rows. A
    round has only as many rows as are expected to fit into what is left of the budget.

    Args:
        folder: where the trainings of the bake-off are; a second call continues.
        budget: seconds.
        train: trains a recipe into a folder, on tables by the names of their parts; resumes what was interrupted.

    Raises:
        ConfigError: for a task that has no such bake-off, for other settings or rows than those of an interrupted one,
            or if every method fails.
    """
    data = DataPlan.of(recipe)
    require(data.task, AUTO)
    prepared = prepare(data, tables)
    _check_same(folder, {"recipe": recipe.model_dump(mode="json"), "rows": rows_digest(prepared, data)})
    parts = {name: split.table for name, split in prepared.splits.items()}
    recipe = with_all_classes(recipe, parts)
    selected = _metric_of(recipe, prepared)
    bake_off = _BakeOff(recipe=recipe, folder=folder, selected=selected, train=train, reporter=reporter)
    rounds = bake_off.rounds(parts["train"], parts["validation"], budget=budget)
    method, reason = bake_off.choice(rounds[-1])
    bake_off.say(reason)
    if recipe.data.written and not _with_method(recipe, method).data.written:
        names = ", ".join(recipe.data.written)
        bake_off.say(f"method auto: {method} cannot have values in front of the text: written is left out ({names})")
    return Choice(method=method, metric=selected, rounds=tuple(map(tuple, rounds)), lines=tuple(bake_off.said))


def _metric_of(recipe: Recipe, prepared: PreparedData) -> str:
    """Return the name of the score by which candidates are compared."""
    task, labels = prepared.task, prepared.splits["validation"].labels
    constant = task.constant(prepared.splits["train"].labels, len(labels))
    assert constant is not None
    return selection_score(task, constant, labels, by=recipe.training.select_by).name


def _check_same(folder: Path, plan: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings or rows than those of an interrupted bake-off."""
    file = folder / "plan.json"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(file, plan, what="plan of the bake-off")
    elif read_json(file, what="plan of the bake-off") != plan:
        raise ConfigError(
            f"{folder.parent} was started with other settings or rows: restore them, or choose another output folder"
        )


def _with_method(recipe: Recipe, method: str) -> Recipe:
    return recipe if recipe.method["name"] == method else comparison_recipes(recipe, [method])[method]


def _expected(tried: Sequence[Tried], names: Sequence[str], rows: int) -> float:
    """Return the seconds that methods need on so many rows, by those of an earlier round."""
    return sum(one.seconds * rows / one.rows for one in tried if one.method in names)


@dataclass(frozen=True, kw_only=True)
class _BakeOff:
    recipe: Recipe
    folder: Path
    selected: str
    train: Train
    reporter: Reporter
    said: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.said.append(line)
        self.reporter.note(line)

    def rounds(self, train: Dataset, validation: Dataset, *, budget: float) -> list[list[Tried]]:
        """Return what was tried in each round."""
        order = np.random.default_rng(self.recipe.training.seed).permutation(len(train))
        rows, left = max(_FIRST_ROWS, len(train) // _GROWTH**2), budget
        rows = rows if _LEAST_GROWTH * rows <= len(train) else len(train)
        names = [*_IN_EVERY_ROUND, *(name for name in CANDIDATES if name not in _IN_EVERY_ROUND)]
        rounds: list[list[Tried]] = []
        while True:
            tables = {"train": train.select(np.sort(order[:rows])), "validation": validation}
            is_last = len(rounds) == _ROUNDS - 1 or rows == len(train)
            following = len(train) if len(train) < 2 * _GROWTH * rows else _GROWTH * rows
            following = 0 if is_last else following
            tried: list[Tried] = []
            for name in names:
                longest = max((one.seconds for one in tried), default=0.0)
                kept = _expected(tried, _IN_EVERY_ROUND, following)
                if rounds or name in _IN_EVERY_ROUND or left - longest > kept:
                    tried.append(self._try(name, tables))
                    left -= tried[-1].seconds
            rounds.append(tried)
            self.say(self._listed(tried, names, all_rows=len(train)))
            if is_last:
                return rounds
            names, following = self._next(tried, following, left)
            if following < _LEAST_GROWTH * rows or len(names) < 2:
                why = "since one method alone is left" if len(names) < 2 else "for which the budget has no time"
                self.say(f"method auto: no round on more than {rows:,} rows, {why}")
                return rounds
            rows = following

    def _next(self, tried: Sequence[Tried], rows: int, left: float) -> tuple[list[str], int]:
        """Return the methods of the next round, and how many rows they are trained on in the time that is left.

        Those that are in every round, and of the better half the best ones that fit.
        """
        ranked = [one.method for one in self._ranked(tried)]
        names = [name for name in _IN_EVERY_ROUND if name in ranked]
        for name in ranked[: math.ceil(len(tried) / 2)]:
            if name not in names and _expected(tried, [*names, name], rows) <= left:
                names.append(name)
        expected = _expected(tried, names, rows)
        return names, rows if expected <= left else int(rows * max(left, 0.0) / expected)

    def _run(self, name: str, rows: int) -> Path:
        """Return the folder of a training; a round that has other rows since the library changed begins anew."""
        return self.folder / f"rows-{rows}" / name

    def _try(self, name: str, tables: Mapping[str, Dataset]) -> Tried:
        """Train a method, or read what came of it before."""
        path = self._run(name, len(tables["train"]))
        result = path.with_suffix(".json")
        if result.is_file():
            return read_record(result, Tried, what="result of a method")
        self.reporter.note(f"method auto: training {name} on {len(tables['train']):,} rows")
        started = time.perf_counter()
        outcome: dict[str, Any] = {}
        try:
            self.train(_with_method(self.recipe, name), path, tables)
            outcome["score"] = self._metric(path).value()
        except (ConfigError, DataError, RuntimeError) as error:  # a method that does not fit, an infinite loss, memory
            self.reporter.note(f"method auto: {name} failed: {error}")
            outcome["error"] = str(error)
        seconds = time.perf_counter() - started
        tried = Tried(method=name, rows=len(tables["train"]), seconds=seconds, **outcome)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(result, asdict(tried), what="result of a method")
        shutil.rmtree(path / "model", ignore_errors=True)
        return tried

    def _metric(self, path: Path) -> Metric:
        """Return the metric that selects, over the validation rows."""
        scores = StoredScores.read(path)
        part = scores.parts["validation"]
        score = selection_score(scores.task, part["logits"], part["labels"], by=self.recipe.training.select_by)
        return clustered({score.name: score}, unpacked_clusters(part))[score.name]

    def _ranked(self, tried: Sequence[Tried]) -> list[Tried]:
        """Return what did not fail, the best first, and the simplest first of equals."""
        sign = -1 if metric_info(self.selected).higher_is_better else 1
        scored = [(sign * one.score, one) for one in tried if one.score is not None and math.isfinite(one.score)]
        if not scored:
            raise ConfigError(f"method auto: all methods failed, the first with: {tried[0].error}")
        return [one for _, one in sorted(scored, key=lambda pair: pair[0])]

    def _listed(self, tried: Sequence[Tried], names: Sequence[str], *, all_rows: int) -> str:
        ranked = self._ranked(tried)
        listed = ", ".join(f"{one.method} {one.score:.4f}" for one in ranked)
        failed = "".join(f", {one.method} failed" for one in tried if one not in ranked)
        skipped = "".join(f", {name} left out for lack of time" for name in names[len(tried) :])
        rows = tried[0].rows
        share = f"all {rows:,}" if rows == all_rows else f"{rows:,} of {all_rows:,}"
        return f"method auto: {share} training rows, validation {self.selected}: {listed}{failed}{skipped}"

    def choice(self, tried: Sequence[Tried]) -> tuple[str, str]:
        """Return the simplest method within a standard error of the best, and a sentence about it.

        The rule of Breiman, Friedman, Olshen and Stone (1984), with the error of the difference on the same rows. An
        interval of 95 % asks for more than a choice needs: on some hundred rows the simplest method would always win.
        """
        ranked = self._ranked(tried)
        best, metrics = ranked[0], {one.method: self._metric(self._run(one.method, one.rows)) for one in ranked}

        def against(name: str) -> Comparison:
            names = (best.method, name)
            return compare_metrics(metrics[best.method], metrics[name], names=names, part="validation")

        if len(ranked) == 1:
            return best.method, f"method auto: {best.method} is taken, the only one left"
        for name in CANDIDATES[: CANDIDATES.index(best.method)]:
            if name in metrics and abs((pair := against(name)).difference) <= pair.standard_error:
                line = comparison_lines([pair])[0]
                return (
                    name,
                    f"method auto: {name} is taken, the simplest one within a standard error of the best: {line}",
                )
        margin = comparison_lines([against(ranked[1].method)])[0]
        return best.method, f"method auto: {best.method} is taken, the best one: {margin}"
