"""Trials of settings in a folder: each has its values, written before it begins, and its result.

An interrupted study goes on with them as an uninterrupted one would have: the values of a trial depend on the results
of those before it, and on the seed.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from attribune.core.config import Settings, read_record
from attribune.core.files import write_json
from attribune.core.job_folder import Inside
from attribune.errors import ConfigError

T = TypeVar("T", bound="Trial")

_MAX_ATTEMPTS = 3
_KILLED = f"its process was killed {_MAX_ATTEMPTS} times, as the system does when memory runs out"
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


class Study(Generic[T]):
    """Trials one after the other, whose values are drawn from a space by the results of those before.

    A second study of the same folder begins with what is recorded there.

    Args:
        folder: has the trials in ``trials``.
        kind: of trials.
        seed: of the draws.

    Attributes:
        tried: the trials that have ended, in their order.
    """

    def __init__(self, folder: Path, kind: type[T], space: Space, *, seed: int) -> None:
        self.tried: list[T] = []
        self._folder, self._kind, self._space, self._seed = folder, kind, space, seed

    @property
    def recorded(self) -> int:
        """How many trials have a result, those of earlier calls included."""
        return len(list(self._folder.glob("trials/*/result.json")))

    @property
    def is_recorded(self) -> bool:
        """Whether the next trial has its result already."""
        return self._next.result.is_file()

    @property
    def best(self) -> T | None:
        """The trial with the lowest score, of equal ones the first; None if all failed."""
        scored = [trial for trial in self.tried if trial.score is not None]
        return min(scored, key=lambda trial: (trial.score, trial.number), default=None)

    def path(self, number: int) -> Path:
        """Return the folder of a trial."""
        return self._folder / "trials" / f"{number:04d}"

    @property
    def _next(self) -> _TrialFolder:
        return _TrialFolder(self.path(len(self.tried)))

    def next(self, run: Callable[[T, Path], T], *, announce: Callable[[T], None] = lambda _: None) -> T:
        """Return the next trial with its result: the recorded one, or else what comes of running it.

        Args:
            run: runs a trial and returns it with its result, or with the reason of its failure; it has the trial's
                folder for itself. A trial whose process was killed too often has failed, and is not run.
            announce: is told a new trial before it is run.
        """
        folder = self._next
        if not folder.result.is_file():
            values = folder.begin(self._space, self.tried, seed=self._seed + len(self.tried))
            trial = self._kind(number=len(self.tried), values=values)
            announce(trial)
            with folder.attempt() as is_worth_it:
                trial = run(trial, folder.path) if is_worth_it else replace(trial, error=_KILLED)
            folder.end(trial)
        self.tried.append(folder.read(self._kind))
        return self.tried[-1]


@dataclass(frozen=True)
class _TrialFolder:
    """The folder of one trial."""

    path: Path

    result = Inside("result.json")
    """The result, written at the end."""
    _values = Inside("values.json")
    _attempts = Inside("attempts.json")

    def begin(self, space: Space, tried: Sequence[Trial], *, seed: int) -> dict[str, Any]:
        """Draw and write the values of the trial, or read those of an interrupted one.

        Args:
            tried: the trials before it, by whose scores Optuna draws.
        """
        if not self._values.is_file():
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(self._values, _draw(space, tried, seed), what="values of the trial")
        return read_record(self._values, dict[str, Any], what="values of the trial")

    @contextlib.contextmanager
    def attempt(self) -> Iterator[bool]:
        """Count the attempts, except those that the user stopped; yields whether this one should still be made."""
        before = read_record(self._attempts, int, what="count of attempts") if self._attempts.is_file() else 0
        write_json(self._attempts, before + 1, what="count of attempts")
        try:
            yield before < _MAX_ATTEMPTS
        except KeyboardInterrupt:
            write_json(self._attempts, before, what="count of attempts")
            raise

    def end(self, trial: Trial) -> None:
        """Write the result, after which the attempts no longer count."""
        write_json(self.result, asdict(trial), what="result of the trial", indent=1)
        self._attempts.unlink(missing_ok=True)

    def read(self, kind: type[T]) -> T:
        """Read the result."""
        self._attempts.unlink(missing_ok=True)
        return read_record(self.result, kind, what="result of the trial")


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


def listed(values: Mapping[str, Any]) -> str:
    """Return the values of a trial in one line."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


def require_optuna() -> None:
    """Raise a ConfigError without Optuna."""
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("a search needs Optuna: pip install 'attribune[search]'")


def _draw(space: Space, tried: Sequence[Trial], seed: int) -> dict[str, Any]:
    """Draw the values of the next trial with Optuna's tree-structured Parzen estimator, seeded."""
    import optuna

    distributions = {name: _distribution(choices) for name, choices in space.items()}
    sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=_STARTUP_TRIALS)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it announces every study
    try:
        study = optuna.create_study(sampler=sampler)
    finally:
        optuna.logging.set_verbosity(verbosity)
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
