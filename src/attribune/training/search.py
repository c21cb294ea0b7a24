"""Search of hyperparameters: trials drawn by Optuna and scored on validation rows, which go on where they were.

    search(recipe, "searches/stars", trials=30)

Test rows are never read: they are what the chosen setting is for.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import transformers
from pydantic import Field, TypeAdapter, ValidationError
from safetensors.numpy import load_file

from attribune.backbones.loading import load_tokenizer, locate_backbone
from attribune.core.config import Settings
from attribune.core.files import read_json, replace_file, write_json
from attribune.core.job_folder import JobFolder
from attribune.core.progress import Reporter
from attribune.errors import ConfigError, DataError
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.tasks import task_from_dict
from attribune.tasks.base import validation_score
from attribune.training.callbacks.trackers import check_trackers
from attribune.training.distributed import refuse_processes
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare, rows_digest
from attribune.training.train import train

__all__ = ["Range", "SearchResult", "Trial", "default_space", "read_space", "search"]

_VALUES, _RESULT, _ATTEMPTS = "values.json", "result.json", "attempts.json"
_MOST_ATTEMPTS = 3
_HYPERCOMPLEX = (2, 4, 8, 16)
_AT_RANDOM = 8  # trials before Optuna goes by what they found


class Range(Settings):
    """Numbers from `low` to `high`, drawn evenly, or with ``log`` evenly over their logarithms."""

    low: float
    high: float
    log: bool = False
    integer: bool = False


Space = dict[str, Range | Annotated[list[str | float | int | bool], Field(min_length=1)]]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial.

    Args:
        number: in the order of the draws.
        values: of the settings that are searched.
        score: on validation rows, lower is better; None where it failed.
        metrics: on validation rows.
        error: why it failed.
    """

    number: int
    values: dict[str, Any]
    score: float | None
    metrics: dict[str, float]
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search found.

    Args:
        folder: of the search; its ``recipe.yaml`` has the best values.
        tried: every trial that has ended.
        best: the one with the lowest score; None where all failed.
    """

    folder: Path
    tried: tuple[Trial, ...]
    best: Trial | None


def default_space(recipe: Recipe) -> dict[str, Any]:
    """What is searched unless a space is given: the learning rates, and A, O and Z of methods that have them.

    O is drawn from the numbers whose square divides the hidden size. The grids of the papers are not published in full;
    these are ours.
    """
    rate = recipe.training.learning_rate
    space: dict[str, Any] = {"training.learning_rate": {"low": rate / 10, "high": rate * 10, "log": True}}
    if recipe.backbone_learning_rate != rate:
        own = recipe.backbone_learning_rate
        space["training.backbone_learning_rate"] = {"low": own / 10, "high": own * 10, "log": True}
    options = recipe.method_config().to_dict()
    if "bottleneck" in options:
        space["method.bottleneck"] = [16, 32, 64, 128, 256]
    if "hypercomplex" in options:
        source = locate_backbone(recipe.backbone.name)
        hidden = transformers.AutoConfig.from_pretrained(source, revision=recipe.backbone.revision).hidden_size
        if fitting := [number for number in _HYPERCOMPLEX if hidden % number**2 == 0]:
            space["method.hypercomplex"] = fitting
    if "vector_size" in options:
        space["method.vector_size"] = [16, 32, 64, 128, 256]
    return space


def read_space(tree: Mapping[str, Any]) -> Space:
    """Check a space: settings of the recipe by their dotted names, each with a range or a list of values.

    Raises:
        ConfigError: naming what is wrong.
    """
    try:
        space = TypeAdapter(Space).validate_python(dict(tree))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"the space to search: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}: give a list of "
            "values, or low and high, with log: true or integer: true"
        ) from error
    if not space:
        raise ConfigError("the space to search is empty: name at least one setting, such as training.learning_rate")
    for name, values in space.items():
        if isinstance(values, Range) and not (values.low < values.high and (values.low > 0 or not values.log)):
            raise ConfigError(
                f"the space to search: {name} goes from {values.low:g} to {values.high:g}: give low below high, and "
                "above 0 with log"
            )
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
        space: what is searched; `default_space` unless given.

    Raises:
        ConfigError: without Optuna, for a space that does not hold, for a folder of another search or with other rows,
            or one that another process works on.
    """
    _check(recipe, trials)
    reporter = reporter or Reporter()
    folder = Path(output)
    tree = default_space(recipe) if space is None else dict(space)
    checked = read_space(tree)
    _check_ends(recipe, checked)
    data = DataPlan.of(recipe)
    prepared = prepare(data)
    plan = {
        "recipe": recipe.model_dump(mode="json"),
        "space": json.loads(json.dumps(tree)),
        "seed": seed,
        "rows": rows_digest(prepared, data),
    }
    job = SearchFolder(folder)
    job.refuse_foreign()
    with job.held():
        job.begin(plan)
        # A trial must not see test rows, nor other rows than the trial before it.
        tables = {name: split.table for name, split in prepared.splits.items() if name != "test"}
        tried: list[Trial] = []
        for number in range(max(trials, len(list(folder.glob(f"trials/*/{_RESULT}"))))):
            place = folder / "trials" / f"{number:04d}"
            if not (place / _RESULT).is_file():
                if not (place / _VALUES).is_file():
                    place.mkdir(parents=True, exist_ok=True)
                    write_json(place / _VALUES, _draw(checked, tried, seed + number), what="values of the trial")
                values = read_json(place / _VALUES, what="values of the trial")
                reporter.note(f"trial {number + 1} of {trials}: {listed(values)}")
                found = _try(number, values, recipe, place, tables, reporter)
                write_json(place / _RESULT, asdict(found), what="result of the trial", indent=1)
            shutil.rmtree(place / "run", ignore_errors=True)
            tried.append(Trial(**read_json(place / _RESULT, what="result of the trial")))
        scored = [(trial.score, trial.number, trial) for trial in tried if trial.score is not None]
        best = min(scored)[2] if scored else None
        if best is not None:
            replace_file(folder / "recipe.yaml", _with_values(recipe, best.values).to_yaml().encode())
        return SearchResult(folder=folder, tried=tuple(tried), best=best)


def _check(recipe: Recipe, trials: int) -> None:
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("a search needs Optuna: pip install 'attribune[search]'")
    if trials < 1:
        raise ConfigError(f"trials is {trials}: give at least 1")
    if recipe.is_baseline:
        raise ConfigError(f"method {recipe.method['name']!r} chooses its regularisation itself: search another method")
    refuse_processes("search")
    check_trackers(recipe.training.report_to)


def _check_ends(recipe: Recipe, space: Mapping[str, Any]) -> None:
    """Settings that a recipe does not have, and a backbone that is not there, are no failed trials."""
    for name, values in space.items():
        first = values.low if isinstance(values, Range) else values[0]
        _with_values(recipe, {name: int(first) if isinstance(values, Range) and values.integer else first})
    load_tokenizer(recipe.backbone.name, revision=recipe.backbone.revision)


def listed(values: Mapping[str, Any]) -> str:
    """The values of a trial in one line."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


def _try(
    number: int, values: dict[str, Any], recipe: Recipe, place: Path, tables: Mapping[str, Any], reporter: Reporter
) -> Trial:
    """Run a trial, unless its process was killed too often before."""
    with _counted(place / _ATTEMPTS) as attempt:
        if attempt <= _MOST_ATTEMPTS:
            return _run(number, values, recipe, place / "run", tables, reporter)
    error = f"its process was killed {_MOST_ATTEMPTS} times, as the system does when memory runs out"
    return Trial(number=number, values=values, score=None, metrics={}, error=error)


def _run(
    number: int, values: dict[str, Any], recipe: Recipe, run: Path, tables: Mapping[str, Any], reporter: Reporter
) -> Trial:
    """Train with these values, or go on where that was interrupted."""
    try:
        tried = _with_values(recipe, values)
        train(tried, run, tables=tables, baselines=False, resume=True, reporter=reporter)
    except (ConfigError, DataError, RuntimeError) as error:  # sizes that do not fit, a loss without end, memory
        reporter.note(f"trial {number + 1} failed: {error}")
        return Trial(number=number, values=values, score=None, metrics={}, error=str(error))
    folder = RunFolder(run)
    results, found = folder.read_results(), load_file(str(folder.logits("validation")))
    score = validation_score(task_from_dict(results.task), found["logits"], found["labels"])
    if not math.isfinite(score):
        return Trial(number=number, values=values, score=None, metrics={}, error=f"the validation score is {score}")
    metrics = {name: interval.value for name, interval in results.models[0].parts["validation"].items()}
    return Trial(number=number, values=values, score=score, metrics=metrics)


@contextlib.contextmanager
def _counted(file: Path) -> Iterator[int]:
    """Count how often a trial was begun, stops by the user left out; yields the number of this time."""
    before = int(read_json(file, what="count of attempts")) if file.is_file() else 0
    write_json(file, before + 1, what="count of attempts")
    try:
        yield before + 1
    except KeyboardInterrupt:
        write_json(file, before, what="count of attempts")
        raise


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
    plan_name = "search.json"

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Write the plan, or check that it is the one with which the first trial was begun.

        Raises:
            ConfigError: for a folder of something else, or of another search.
        """
        self.refuse_foreign()
        if not (self.path / "trials").is_dir():
            self.write_plan((json.dumps(plan, ensure_ascii=False, indent=1) + "\n").encode())
        elif read_json(self.plan_file, what="plan of the search") != plan:
            raise ConfigError(
                f"{self.path} was begun with another recipe, space, seed or other rows: choose another folder, or "
                "bring them back; only the number of trials may change"
            )


def _draw(space: Space, tried: Sequence[Trial], seed: int) -> dict[str, Any]:
    """The values of the next trial by Optuna's tree-structured Parzen estimator; the same for the same history."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: _distribution(choices) for name, choices in space.items()}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=_AT_RANDOM))
    for trial in tried:
        failed = trial.score is None
        study.add_trial(
            optuna.trial.create_trial(
                params=trial.values,
                distributions=distributions,
                value=None if failed else trial.score,
                state=optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE,
            )
        )
    return dict(study.ask(distributions).params)


def _distribution(choices: Range | list[Any]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(choices, list):
        return CategoricalDistribution(choices)
    if choices.integer:
        return IntDistribution(int(choices.low), int(choices.high), log=choices.log)
    return FloatDistribution(choices.low, choices.high, log=choices.log)
