"""Search of hyperparameters with Optuna, scored on validation rows; an interrupted search can be resumed.

    search(recipe, "searches/stars", trials=30)

Test rows are never read.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attribune.backbones.loading import load_config, load_tokenizer
from attribune.core.files import read_json, replace_file
from attribune.core.job_folder import JobFolder
from attribune.core.processes import refuse_processes
from attribune.core.progress import Reporter
from attribune.errors import ConfigError, DataError
from attribune.runs.folder import SEARCH_PLAN, RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores
from attribune.tasks.base import validation_score
from attribune.training.callbacks import check_trackers
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare, rows_digest
from attribune.training.study import Range, Study, Trial, listed, read_space, require_optuna
from attribune.training.train import train

_HYPERCOMPLEX = (2, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The result of a search.

    Args:
        folder: of the search; its ``recipe.yaml`` has the best values.
        tried: all trials that have ended.
        best: the trial with the lowest score; None if all failed.
    """

    folder: Path
    tried: tuple[Trial, ...]
    best: Trial | None


def default_space(recipe: Recipe) -> dict[str, Any]:
    """Return the default space: the learning rates, and A, O and Z of methods that have them.

    O is drawn from the numbers whose square divides the hidden size. The grids of the papers are not published in full;
    these are ours.
    """
    rates = dict(recipe.learner.rates)
    if rates["backbone_learning_rate"] == rates["learning_rate"]:
        del rates["backbone_learning_rate"]
    space: dict[str, Any] = {
        f"training.{name}": {"low": rate / 10, "high": rate * 10, "log": True} for name, rate in rates.items()
    }
    options = recipe.method
    if "bottleneck" in options:
        space["method.bottleneck"] = [16, 32, 64, 128, 256]
    if "hypercomplex" in options and recipe.backbone.is_pretrained:
        hidden = load_config(recipe.backbone.name, revision=recipe.backbone.revision).hidden_size
        if fitting := [number for number in _HYPERCOMPLEX if hidden % number**2 == 0]:
            space["method.hypercomplex"] = fitting
    if "vector_size" in options:
        space["method.vector_size"] = [16, 32, 64, 128, 256]
    return space


def search(
    recipe: Recipe,
    output: str | Path,
    *,
    trials: int,
    space: Mapping[str, Any] | None = None,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> SearchResult:
    """Try settings until there are as many trials as asked for; a second call continues the first one.

    Args:
        recipe: what all trials have in common.
        output: folder of the search.
        trials: in all, those of earlier calls included.
        space: the search space; by default `default_space`.

    Raises:
        ConfigError: without Optuna, for a space that does not hold, for a folder of another search or with other rows,
            or one that another process works on.
    """
    _check(recipe, trials)
    reporter = reporter or Reporter()
    folder = SearchFolder(Path(output))
    tree = default_space(recipe) if space is None else dict(space)
    checked = read_space(tree)
    _check_values(recipe, checked)
    data = DataPlan.of(recipe)
    prepared = prepare(data)
    plan = {
        "recipe": recipe.model_dump(mode="json"),
        "space": json.loads(json.dumps(tree)),
        "seed": seed,
        "rows": rows_digest(prepared, data),
    }
    folder.refuse_foreign()
    with folder.held():
        folder.begin(plan)
        # All trials use the same rows, and no test rows.
        tables = {name: split.table for name, split in prepared.splits.items() if name != "test"}
        study = Study(folder.path, Trial, checked, seed=seed)
        for number in range(max(trials, study.recorded)):
            study.next(
                lambda trial, path: _run(trial, recipe, RunFolder(path / "run"), tables, reporter),
                announce=lambda new: reporter.note(f"trial {new.number + 1} of {trials}: {listed(new.values)}"),
            )
            shutil.rmtree(study.path(number) / "run", ignore_errors=True)
        if study.best is not None:
            replace_file(folder.path / "recipe.yaml", _with_values(recipe, study.best.values).to_yaml().encode())
        return SearchResult(folder=folder.path, tried=tuple(study.tried), best=study.best)


def _check(recipe: Recipe, trials: int) -> None:
    require_optuna()
    if trials < 1:
        raise ConfigError(f"trials is {trials}: give at least 1")
    if not recipe.learner.has_settings:
        raise ConfigError(f"method {recipe.method['name']!r} chooses its settings itself: search another method")
    refuse_processes("search")
    check_trackers(recipe.training.report_to)


def _check_values(recipe: Recipe, space: Mapping[str, Any]) -> None:
    """Refuse unknown settings and a missing backbone, with which every trial would fail."""
    for name, values in space.items():
        first = values.low if isinstance(values, Range) else values[0]
        _with_values(recipe, {name: int(first) if isinstance(values, Range) and values.integer else first})
    if recipe.backbone.is_pretrained:
        load_tokenizer(recipe.backbone.name, revision=recipe.backbone.revision)


def _run(trial: Trial, recipe: Recipe, folder: RunFolder, tables: Mapping[str, Any], reporter: Reporter) -> Trial:
    """Train with the values of a trial, or resume that training."""
    try:
        recipe = _with_values(recipe, trial.values)
        train(recipe, folder.path, tables=tables, baselines=False, resume=True, reporter=reporter)
    except (ConfigError, DataError, RuntimeError) as error:  # sizes that do not fit, an infinite loss, memory
        reporter.note(f"trial {trial.number + 1} failed: {error}")
        return replace(trial, error=str(error))
    results, scores = folder.read_results(), StoredScores.read(folder.path)
    rows = scores.parts["validation"]
    score = validation_score(scores.task, rows["logits"], rows["labels"], by=recipe.training.select_by)
    if not math.isfinite(score):
        return replace(trial, error=f"the validation score is {score}")
    metrics = {name: interval.value for name, interval in results.models[0].parts["validation"].items()}
    return replace(trial, score=score, metrics=metrics)


def _with_values(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    tree = recipe.model_dump(mode="json")
    for name, value in values.items():
        *path, last = name.split(".")
        branch: Any = tree
        for step in path:
            branch = branch.get(step)
            if not isinstance(branch, dict):
                raise ConfigError(f"the space to search: there is no setting {name!r}: name one of the recipe's")
        branch[last] = value
    return Recipe.from_dict(tree, source=f"the recipe with {listed(values)}")


@dataclass(frozen=True)
class SearchFolder(JobFolder):
    """The folder of a search: its plan, a folder for each trial, the recipe of the best one."""

    contents = "search"
    plan_name = SEARCH_PLAN

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Write the plan, or raise a ConfigError if the folder has the trials of another plan."""
        self.refuse_foreign()
        if not (self.path / "trials").is_dir():
            self.write_plan((json.dumps(plan, ensure_ascii=False, indent=1) + "\n").encode())
        elif self._plan() != plan:
            raise ConfigError(
                f"{self.path} was started with another recipe, space, seed or other rows: choose another folder, or "
                "restore them; only the number of trials may change"
            )

    def _plan(self) -> Any:
        """The plan; settings that releases have since got are at their defaults."""
        saved = read_json(self.plan_file, what="plan of the search")
        if isinstance(saved, dict) and isinstance(saved.get("recipe"), dict):
            saved["recipe"] = Recipe.from_dict(saved["recipe"], source=str(self.plan_file)).model_dump(mode="json")
        return saved
