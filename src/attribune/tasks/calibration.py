"""Weights of logits that fit validation rows: a temperature for those of one model, or the weights of two models."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attribune.core.arrays import Array
from attribune.metrics.metric import Metric
from attribune.tasks.base import Task

__all__ = ["fit_temperature", "fit_weights"]

_CALIBRATED = ("log_loss", "cross_entropy")
_DEVIATION = 0.5
_LARGEST = 20.0
_STARTS = ((1.0, 0.0), (0.5, 0.5))


def fit_temperature(task: Task, logits: Array, labels: Array, *, rows: float | None = None) -> float | None:
    """Return the number by which logits are divided for the best proper score of validation rows.

    That is temperature scaling (Guo et al. 2017). Few rows tell little about a temperature, so its logarithm has a
    normal prior around 0 with the deviation 0.5, against which the losses of the rows are summed.

    Args:
        logits: (n, outputs) of validation rows.
        labels: their labels, as the task encodes them.
        rows: how many of them are independent; by default all.

    Returns:
        None where the score is not one of probabilities.
    """
    score = task.proper_score(logits, labels)
    if score is None or score.name not in _CALIBRATED:
        return None
    from scipy.optimize import minimize_scalar  # a tenth of a second to import

    scores, nats = np.asarray(logits, dtype=np.float64), _nats(task, labels, rows)

    def penalised(log_temperature: float) -> float:
        return nats(scores / math.exp(log_temperature)) + (log_temperature / _DEVIATION) ** 2 / 2

    best = minimize_scalar(
        penalised, bounds=(-math.log(_LARGEST), math.log(_LARGEST)), method="bounded", options={"xatol": 1e-3}
    )
    return round(math.exp(float(best.x)), 4)


def fit_weights(
    task: Task, first: Array, second: Array, labels: Array, *, rows: float | None = None
) -> tuple[float, float]:
    """Return the weights a and b from 0 of ``a first + b second`` with the best proper score.

    They are shrunk to the first model alone: a, its logarithm above 1, and b have normal priors around 1, 0 and 0 with
    the deviation 0.5. So some tens of rows can leave the second model alone, and the scale of the first one open.

    Args:
        first: (n, outputs) logits of validation rows, and `second` those of the other model.
        labels: their labels, as the task encodes them.
        rows: how many of them are independent; by default all.
    """
    from scipy.optimize import minimize

    one, two = (np.asarray(logits, dtype=np.float64) for logits in (first, second))
    nats = _nats(task, labels, rows)

    def penalised(weights: Array) -> float:
        a, b = map(float, weights)
        changed = a - 1 if a < 1 else math.log(a)
        return nats(a * one + b * two) + (changed**2 + b**2) / (2 * _DEVIATION**2)

    bounds = ((0.0, _LARGEST), (0.0, _LARGEST))
    found = [minimize(penalised, start, bounds=bounds, method="L-BFGS-B") for start in _STARTS]
    a, b = min(found, key=lambda one: float(one.fun)).x
    return round(float(a), 4), round(float(b), 4)


def _nats(task: Task, labels: Array, rows: float | None) -> Callable[[Array], float]:
    """Return what computes the loss of so many rows: the sum of their losses, or n log RMSE for numbers."""
    count = len(labels) if rows is None else rows

    def nats(logits: Array) -> float:
        score = task.proper_score(logits, labels)
        assert isinstance(score, Metric)
        value = score.value()
        return count * (value if score.name in _CALIBRATED else math.log(max(value, 1e-12)))

    return nats
