"""Weights of logits that fit validation rows: a temperature for those of one model, or the weights of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from attribune.core.arrays import Array
from attribune.metrics.metric import Metric
from attribune.tasks.base import Task

_CALIBRATED = ("log_loss", "cross_entropy")
_DEVIATION = 0.5
_LARGEST = 20.0


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
    task: Task, logits: Array | Sequence[Array], labels: Array, *, rows: float | None = None
) -> list[float]:
    """Return the weights from 0 of several models' logits whose sum has the best proper score.

    They are shrunk to the first model alone: its weight a, the logarithm of a above 1, and the other weights have
    normal priors around 1, 0 and 0 with the deviation 0.5. So some tens of rows can leave another model alone, and the
    scale of the first one open.

    Args:
        logits: (n, outputs) of each model for the validation rows.
        labels: their labels, as the task encodes them.
        rows: how many of them are independent; by default all.
    """
    from scipy.optimize import minimize

    models = np.asarray(logits, dtype=np.float64)
    count, nats = len(models), _nats(task, labels, rows)

    def penalised(weights: Array) -> float:
        a, others = float(weights[0]), weights[1:]
        changed = a - 1 if a < 1 else math.log(a)
        squares = changed**2 + float(others @ others)
        return nats(np.tensordot(weights, models, axes=1)) + squares / (2 * _DEVIATION**2)

    starts, bounds = (np.eye(count)[0], np.full(count, 1 / count)), [(0.0, _LARGEST)] * count
    found = [minimize(penalised, start, bounds=bounds, method="L-BFGS-B") for start in starts]
    best = min(found, key=lambda one: float(one.fun))
    return [round(float(weight), 4) for weight in best.x]


def _nats(task: Task, labels: Array, rows: float | None) -> Callable[[Array], float]:
    """Return what computes the loss of so many rows: the sum of their losses, or n log RMSE for numbers."""
    count = len(labels) if rows is None else rows

    def nats(logits: Array) -> float:
        score = task.proper_score(logits, labels)
        assert isinstance(score, Metric)
        value = score.value()
        return count * (value if score.name in _CALIBRATED else math.log(max(value, 1e-12)))

    return nats
