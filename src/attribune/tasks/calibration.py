"""A temperature for the logits of a trained model, so that its probabilities are neither too bold nor too timid."""

from __future__ import annotations

import math

import numpy as np

from attribune.core.arrays import Array
from attribune.tasks.base import Task

__all__ = ["fit_temperature"]

_CALIBRATED = ("log_loss", "cross_entropy")
_DEVIATION = 0.5
_LARGEST = math.log(20.0)


def fit_temperature(task: Task, logits: Array, labels: Array) -> float | None:
    """Return the number by which logits are divided for the best proper score of validation rows.

    That is temperature scaling (Guo et al. 2017). Few rows tell little about a temperature, so its logarithm has a
    normal prior around 0 with the deviation 0.5, against which the losses of the rows are summed.

    Args:
        logits: (n, outputs) of validation rows.
        labels: their labels, as the task encodes them.

    Returns:
        None where the score is not one of probabilities.
    """
    score = task.proper_score(logits, labels)
    if score is None or score.name not in _CALIBRATED:
        return None
    from scipy.optimize import minimize_scalar  # a tenth of a second to import

    scores = np.asarray(logits, dtype=np.float64)

    def penalised(log_temperature: float) -> float:
        found = task.proper_score(scores / math.exp(log_temperature), labels)
        assert found is not None
        return len(scores) * found.value() + (log_temperature / _DEVIATION) ** 2 / 2

    best = minimize_scalar(penalised, bounds=(-_LARGEST, _LARGEST), method="bounded", options={"xatol": 1e-3})
    return round(math.exp(float(best.x)), 4)
