"""The search of the baseline ``automl``: networks over word vectors, compared on the validation rows.

Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", section 3.3 and tables 5 and 6. What they
leave open is decided in docs/decisions.md. Test rows are never read.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from attribune.core.process import keep_freed_memory
from attribune.core.progress import Reporter
from attribune.errors import ConfigError, DataError
from attribune.models.automl import ACTIVATIONS, AutoMLModel, NetworkSettings, WordNetwork
from attribune.models.baselines import AutoML
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import TrainingRecipe
from attribune.tasks import Task
from attribune.tasks.capabilities import LINEAR, require
from attribune.training.network_fit import Check, NetworkFit
from attribune.training.network_texts import RANDOM, NetworkTexts
from attribune.training.plan import TrainingPlan
from attribune.training.preparation import PreparedData
from attribune.training.trials import KILLED, Space, Trial, TrialFolder, read_space, require_optuna

__all__ = ["NetworkTrial", "network_space", "train_automl"]

_PRUNE_AFTER = 5  # trials


def network_space(word_vectors: Sequence[str]) -> Space:
    """Return the search space of table 5 of the paper, in its order.

    Args:
        word_vectors: names of the files that are option 1; without any, option 1 is the size of random vectors, which
            are always trained.
    """
    rates, weights = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5], [0.0, 0.0001, 0.001, 0.01]
    either, activations = [True, False], list(ACTIVATIONS)
    return read_space(
        {
            "vectors": list(word_vectors) or list(RANDOM),
            "fine_tune": either if word_vectors else [True],
            "lowercase": either,
            "alphanumeric": either,
            "convolution": either,
            "convolution_activation": activations,
            "convolution_batch_norm": either,
            "max_ngram": [2, 3],
            "convolution_dropout": {"low": 0.0, "high": 0.4},
            "filters": {"low": 50, "high": 200, "integer": True},
            "embedding_dropout": {"low": 0.0, "high": 0.4},
            "hidden_layers": [0, 1, 2, 3, 5],
            "hidden_size": [64, 128, 256],
            "activation": activations,
            "normalization": ["none", "batch_norm", "layer_norm"],
            "dropout": [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5],
            "deep_learning_rate": rates,
            "deep_regularization": weights,
            "wide_learning_rate": rates,
            "wide_regularization": weights,
            "samples": [100_000, 200_000, 500_000, 1_000_000, 2_000_000],
        }
    )


@dataclass(frozen=True, kw_only=True)
class NetworkTrial(Trial):
    """One network.

    Args:
        selected_by: metric by which checks and trials are compared.
        checks: score after each check, lower is better.
        samples: rows that it was trained on.
        best_samples: rows after which it was best.
        ended: why: ``samples``, all of them seen; ``patience``, no check was better; ``pruned``, others were better by
            then; ``minutes``, the time was over; ``diverged``, the logits were no longer finite.
        seconds: without interrupted attempts.
    """

    selected_by: str = ""
    checks: list[float] = field(default_factory=list)
    samples: int = 0
    best_samples: int = 0
    ended: str = ""
    seconds: float = 0.0


def train_automl(
    config: AutoML, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    """Search, and save the best network as the model of the run; an interrupted search continues.

    Returns:
        Fields of `TrainingRecord`.

    Raises:
        ConfigError: without Optuna, for a task that cannot be learned, or files of word vectors that have changed since
            the search began.
        DataError: when a file of word vectors cannot be read, or no trial succeeds.
    """
    require_optuna()
    require(data.task, LINEAR, what="the baseline automl")
    keep_freed_memory()
    texts = NetworkTexts.read(config, plan, data, folder, reporter)
    budget = None if config.minutes is None else 60 * config.minutes
    tried = list(_trials(config.trials, budget, texts, data, plan.training, folder, reporter))
    best = _best(tried)
    if best is None:
        raise DataError(f"all {len(tried)} trials of automl failed, the first with: {tried[0].error}")
    model = AutoMLModel.load(_weights(folder, best.number))
    replace(model, text_input=plan.data.text).save_pretrained(folder.model)
    size = plan.training.batch_size
    return {
        "trials": len(tried),
        "best_trial": best.number + 1,
        "network": best.values,
        "steps": -(-best.samples // size),
        "epochs": best.samples / len(texts.labels["train"]),
        "best_step": -(-best.best_samples // size),
        "selected_by": _selected_by(best, data.task),
        "best_value": best.metrics[_selected_by(best, data.task)],
        "seconds": sum(trial.seconds for trial in tried),
        "stopped_early": best.ended == "patience",
    }


def _best(tried: Sequence[NetworkTrial]) -> NetworkTrial | None:
    """Return the trial with the lowest score, of equal ones the first."""
    scored = [(trial.score, trial.number, trial) for trial in tried if trial.score is not None]
    return min(scored)[2] if scored else None


def _selected_by(trial: NetworkTrial, task: Task) -> str:
    """Return the metric by which a trial is compared; records of earlier releases do not name it."""
    return trial.selected_by or task.main_metric


def _trials(
    count: int,
    budget: float | None,
    texts: NetworkTexts,
    data: PreparedData,
    training: TrainingRecipe,
    folder: RunFolder,
    reporter: Reporter,
) -> Iterator[NetworkTrial]:
    """Yield the trials of earlier attempts, then new ones, until there are enough or the time is over.

    Of the weights those of the best trial are kept.
    """
    space, tried = network_space(list(texts.vectors)), list[NetworkTrial]()
    for number in range(count):
        trial = TrialFolder(folder.path, number)
        if not trial.result.is_file():
            left = math.inf if budget is None else budget - sum(one.seconds for one in tried)
            if tried and left <= 0:
                reporter.note(f"time is up after {len(tried)} of {count} trials")
                return
            values = trial.begin(space, tried, seed=training.seed)
            new = NetworkTrial(number=number, values=values)
            with trial.attempt() as is_worth_it:
                if is_worth_it:
                    new = _try(new, _weights(folder, number), texts, data.task, training, tried, left=left)
                else:
                    new = replace(new, error=KILLED)
            trial.end(new)
            reporter.note(_line(new, count, _best([*tried, new]), data.task))
        tried.append(trial.read(NetworkTrial))
        best = _best(tried)
        for one in tried:
            if one is not best:
                shutil.rmtree(_weights(folder, one.number), ignore_errors=True)
        yield tried[-1]


def _weights(folder: RunFolder, number: int) -> Path:
    """Return where the model of a trial is, until the run has its own."""
    return folder.checkpoints / f"trial-{number:04d}"


def _line(trial: NetworkTrial, count: int, best: NetworkTrial | None, task: Task) -> str:
    """Describe a trial."""
    start = f"trial {trial.number + 1} of {count}"
    if trial.score is None or best is None:
        return f"{start} failed: {trial.error}"
    metric = _selected_by(best, task)
    found = f"{metric} {trial.metrics[metric]:.4f} after {trial.samples:,} rows ({trial.ended}), {trial.seconds:.1f} s"
    return f"{start}: {found}; the best is {best.metrics[metric]:.4f} (trial {best.number + 1})"


def _try(
    trial: NetworkTrial,
    folder: Path,
    texts: NetworkTexts,
    task: Task,
    training: TrainingRecipe,
    tried: Sequence[NetworkTrial],
    *,
    left: float,
) -> NetworkTrial:
    """Train the network of a trial, save its best weights, and return its result."""
    started = time.perf_counter()
    settings = NetworkSettings.from_dict(trial.values)
    if settings.vectors not in (*texts.vectors, *RANDOM):
        raise ConfigError(f"trial {trial.number + 1} names word vectors {settings.vectors!r} that are not there")
    vocabulary, rows = texts.rows(settings)
    torch.manual_seed(training.seed + trial.number)
    network = WordNetwork(
        settings,
        vectors=texts.initial_vectors(settings, vocabulary, seed=training.seed),
        features=texts.features.width,
        outputs=task.outputs,
        is_pair=len(texts.raw["train"]) == 2,
    )
    fit = NetworkFit(network, settings, rows, texts.labels, task, training, weights=texts.weights)
    try:
        trial = _fit(trial, fit, tried, ends=started + left)
    except (RuntimeError, MemoryError) as error:  # no memory for a network of this size
        return replace(trial, error=str(error), seconds=time.perf_counter() - started)
    if trial.score is not None:
        network.load_state_dict(fit.best)
        model = AutoMLModel(
            task=task, settings=settings, vocabulary=vocabulary, features=texts.features, network=network.eval()
        )
        model.save_pretrained(folder)
    return replace(trial, seconds=time.perf_counter() - started)


def _fit(trial: NetworkTrial, fit: NetworkFit, tried: Sequence[NetworkTrial], *, ends: float) -> NetworkTrial:
    """Train until the rows of the settings are seen, patience runs out, others are better, or the time is over."""
    checks: list[float] = []
    best: Check | None = None
    clear: Check | None = None
    since = 0
    for check in fit.checks():
        checks.append(check.score)
        if best is None or (check.score, check.loss) < (best.score, best.loss):
            best = check
            fit.remember()
        if clear is None or check.is_clearly_better_than(clear):
            clear, since = check, 0
        else:
            since += 1
        if since >= fit.training.patience:
            ended = "patience"
        elif _is_behind(checks, tried):
            ended = "pruned"
        elif time.perf_counter() >= ends:
            ended = "minutes"
        else:
            continue
        break
    else:
        ended = "samples" if fit.is_finite else "diverged"
    if best is None:
        rates = f"{fit.settings.deep_learning_rate:g} and {fit.settings.wide_learning_rate:g}"
        return replace(trial, error=f"the logits became infinite or not a number with learning rates of {rates}")
    return replace(
        trial,
        score=best.score,
        metrics=best.metrics,
        selected_by=best.selected_by,
        checks=checks,
        samples=fit.samples,
        best_samples=best.samples,
        ended=ended,
    )


def _is_behind(checks: Sequence[float], tried: Sequence[NetworkTrial]) -> bool:
    """Whether the best score so far is worse than the median of other trials by the same check.

    The median stopping rule of Golovin et al. 2017, "Google Vizier", section 3.2, with best instead of mean scores.
    """
    others = [min(trial.checks[: len(checks)]) for trial in tried if len(trial.checks) >= len(checks)]
    return len(others) >= _PRUNE_AFTER and min(checks) > median(others)
