"""Search of hyperparameters with Optuna, scored on validation rows; an interrupted search can be resumed.

    search(recipe, "searches/stars", trials=30)

Test rows are never read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from attribune.core.records import read_record
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
_MAX_ATTEMPTS = 3
_HYPERCOMPLEX = (2, 4, 8, 16)
_STARTUP_TRIALS = 8  # random ones, before Optuna uses their scores


class Range(Settings):
    """Numbers from `low` to `high`, drawn uniformly, or with ``log`` uniformly over their logarithms."""

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
        values: of the searched settings.
        score: on validation rows, lower is better; None for a failed trial.
        metrics: on validation rows.
        error: reason of a failure.
    """

    number: int
    values: dict[str, Any]
    score: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    error: str | None = None


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
    rates = {"learning_rate": recipe.training.learning_rate}
    if recipe.backbone_learning_rate != recipe.training.learning_rate:
        rates["backbone_learning_rate"] = recipe.backbone_learning_rate
    space: dict[str, Any] = {
        f"training.{name}": {"low": rate / 10, "high": rate * 10, "log": True} for name, rate in rates.items()
    }
    options = recipe.method_config().to_dict()
    if "bottleneck" in options:
        space["method.bottleneck"] = [16, 32, 64, 128, 256]
    if "hypercomplex" in options:
        source = locate_backbone(recipe.backbone.name)
        hidden = transformers.AutoConfig.from_pretrained(
            source, revision=recipe.backbone.revision, trust_remote_code=False
        ).hidden_size
        if fitting := [number for number in _HYPERCOMPLEX if hidden % number**2 == 0]:
            space["method.hypercomplex"] = fitting
    if "vector_size" in options:
        space["method.vector_size"] = [16, 32, 64, 128, 256]
    return space


def read_space(tree: Mapping[str, Any]) -> Space:
    """Check a space: dotted names of settings, each with a range or a list of values; ConfigError naming an error."""
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
        tried: list[Trial] = []
        for number in range(max(trials, len(list(folder.path.glob(f"trials/*/{_RESULT}"))))):
            trial = folder.path / "trials" / f"{number:04d}"
            if not (trial / _RESULT).is_file():
                if not (trial / _VALUES).is_file():
                    trial.mkdir(parents=True, exist_ok=True)
                    write_json(trial / _VALUES, _draw(checked, tried, seed + number), what="values of the trial")
                values = read_record(trial / _VALUES, dict[str, Any], what="values of the trial")
                reporter.note(f"trial {number + 1} of {trials}: {listed(values)}")
                result = _try(Trial(number=number, values=values), recipe, trial, tables, reporter)
                write_json(trial / _RESULT, asdict(result), what="result of the trial", indent=1)
            shutil.rmtree(trial / "run", ignore_errors=True)
            (trial / _ATTEMPTS).unlink(missing_ok=True)
            tried.append(read_record(trial / _RESULT, Trial, what="result of the trial"))
        scored = [(trial.score, trial.number, trial) for trial in tried if trial.score is not None]
        best = min(scored)[2] if scored else None
        if best is not None:
            replace_file(folder.path / "recipe.yaml", _with_values(recipe, best.values).to_yaml().encode())
        return SearchResult(folder=folder.path, tried=tuple(tried), best=best)


def _check(recipe: Recipe, trials: int) -> None:
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("a search needs Optuna: pip install 'attribune[search]'")
    if trials < 1:
        raise ConfigError(f"trials is {trials}: give at least 1")
    if recipe.is_baseline:
        raise ConfigError(f"method {recipe.method['name']!r} chooses its regularisation itself: search another method")
    refuse_processes("search")
    check_trackers(recipe.training.report_to)


def _check_values(recipe: Recipe, space: Mapping[str, Any]) -> None:
    """Refuse unknown settings and a missing backbone, with which every trial would fail."""
    for name, values in space.items():
        first = values.low if isinstance(values, Range) else values[0]
        _with_values(recipe, {name: int(first) if isinstance(values, Range) and values.integer else first})
    load_tokenizer(recipe.backbone.name, revision=recipe.backbone.revision)


def listed(values: Mapping[str, Any]) -> str:
    """Return the values of a trial in one line."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


def _try(trial: Trial, recipe: Recipe, folder: Path, tables: Mapping[str, Any], reporter: Reporter) -> Trial:
    """Run a trial, unless its process was killed too often before."""
    with _counted(folder / _ATTEMPTS) as attempt:
        if attempt <= _MAX_ATTEMPTS:
            return _run(trial, recipe, RunFolder(folder / "run"), tables, reporter)
    return replace(
        trial, error=f"its process was killed {_MAX_ATTEMPTS} times, as the system does when memory runs out"
    )


def _run(trial: Trial, recipe: Recipe, folder: RunFolder, tables: Mapping[str, Any], reporter: Reporter) -> Trial:
    """Train with the values of a trial, or resume that training."""
    try:
        recipe = _with_values(recipe, trial.values)
        train(recipe, folder.path, tables=tables, baselines=False, resume=True, reporter=reporter)
    except (ConfigError, DataError, RuntimeError) as error:  # sizes that do not fit, an infinite loss, memory
        reporter.note(f"trial {trial.number + 1} failed: {error}")
        return replace(trial, error=str(error))
    results, rows = folder.read_results(), load_file(str(folder.logits("validation")))
    score = validation_score(task_from_dict(results.task), rows["logits"], rows["labels"])
    if not math.isfinite(score):
        return replace(trial, error=f"the validation score is {score}")
    metrics = {name: interval.value for name, interval in results.models[0].parts["validation"].items()}
    return replace(trial, score=score, metrics=metrics)


@contextlib.contextmanager
def _counted(file: Path) -> Iterator[int]:
    """Count the attempts of a trial, except those that the user stopped; yields the number of this attempt."""
    before = read_record(file, int, what="count of attempts") if file.is_file() else 0
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
        """Write the plan, or raise a ConfigError if the folder has the trials of another plan."""
        self.refuse_foreign()
        if not (self.path / "trials").is_dir():
            self.write_plan((json.dumps(plan, ensure_ascii=False, indent=1) + "\n").encode())
        elif self._plan() != plan:
            raise ConfigError(
                f"{self.path} was begun with another recipe, space, seed or other rows: choose another folder, or "
                "bring them back; only the number of trials may change"
            )

    def _plan(self) -> Any:
        """The plan; settings that releases have since got are at their defaults."""
        saved = read_json(self.plan_file, what="plan of the search")
        if isinstance(saved, dict) and isinstance(saved.get("recipe"), dict):
            saved["recipe"] = Recipe.from_dict(saved["recipe"], source=str(self.plan_file)).model_dump(mode="json")
        return saved


def _draw(space: Space, tried: Sequence[Trial], seed: int) -> dict[str, Any]:
    """Draw the values of the next trial with Optuna's tree-structured Parzen estimator, seeded."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: _distribution(choices) for name, choices in space.items()}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=_STARTUP_TRIALS))
    for trial in tried:
        state = optuna.trial.TrialState.FAIL if trial.score is None else optuna.trial.TrialState.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(params=trial.values, distributions=distributions, value=trial.score, state=state)
        )
    return dict(study.ask(distributions).params)


def _distribution(choices: Range | list[Any]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(choices, list):
        return CategoricalDistribution(choices)
    if choices.integer:
        return IntDistribution(int(choices.low), int(choices.high), log=choices.log)
    return FloatDistribution(choices.low, choices.high, log=choices.log)
