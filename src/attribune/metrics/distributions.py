"""How near predicted distributions of answers are to those of the people who judged a text, and to single people.

Shapes: n judgements, T texts, K answers.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse, special

from attribune.core.arrays import Array
from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Metric

__all__ = ["disagreement", "distribution_metrics", "judge_metrics", "shares"]

_WORST = 0.1  # the share of the judges over which the worst figure is a mean
_FEWEST = 5  # judgements of a judge whose error is looked at


def shares(labels: Array, texts: Array, *, answers: int) -> Array:
    """Return the share of each answer among the judgements of each text, (T, K).

    Args:
        labels: (n,) numbers of answers.
        texts: (n,) numbers of texts, 0 to T - 1, each of which has a judgement.
    """
    counts = np.zeros((int(texts.max()) + 1, answers))
    np.add.at(counts, (texts, labels), 1)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def disagreement(p: Array) -> tuple[Array, Array]:
    """Return how much the members of a panel disagree, and how undecided they are, (n,) each, in nats.

    The entropy of the mean distribution is ``H(mean p) - mean H(p)``, the disagreement among people, plus
    ``mean H(p)``, the doubt about each of them.

    Source: Houlsby et al. 2011, Bayesian Active Learning for Classification and Preference Learning, equation 2.

    Args:
        p: (n, J, K) probabilities of K answers for J members.
    """
    doubt = special.entr(p).sum(axis=2).mean(axis=1)
    return np.maximum(special.entr(p.mean(axis=1)).sum(axis=1) - doubt, 0.0), doubt


def distribution_metrics(true: Array, predicted: Array, *, positions: Array | None = None) -> dict[str, Metric]:
    """Return means over texts of how far predicted distributions (T, K) are from the true ones.

    ``cross_entropy`` ``-Σ q log p`` in nats, ``manhattan`` ``Σ |p - q|``, ``jensen_shannon`` in nats, and where answers
    have positions ``wasserstein``, the area between the cumulative distributions in the unit of the positions.

    Args:
        positions: (K,) numbers of ordered answers, in order.
    """
    middle = (true + predicted) / 2
    divergence = (special.rel_entr(true, middle) + special.rel_entr(predicted, middle)).sum(axis=1) / 2
    cross = -special.xlogy(true, np.maximum(predicted, np.finfo(np.float64).tiny)).sum(axis=1)
    found = {
        "cross_entropy": cross,
        "manhattan": np.abs(true - predicted).sum(axis=1),
        "jensen_shannon": np.maximum(divergence, 0.0),
    }
    if positions is not None:
        apart = np.abs(np.cumsum(true - predicted, axis=1))[:, :-1]
        found["wasserstein"] = apart @ np.diff(positions)
    return {name: mean_of(name, values) for name, values in found.items()}


def judge_metrics(errors: Array, *, texts: Array, judges: Array | None, name: str) -> dict[str, Metric]:
    """Return how wrong predictions for single judges are, in the mean over texts, and for the worst tenth of judges.

    Source: the perspectivist task of LeWiDi 2025, whose error rate and absolute distance are means over the judges of a
    text, and then over texts. ``worst_tenth`` is the mean over the tenth of the judges with the highest mean error, of
    those with five judgements or more.

    Args:
        errors: (n,) of single judgements.
        texts: (n,) numbers of texts.
        judges: (n,) anything that tells judges apart.
        name: of the error.
    """
    found = {name: mean_of(name, np.bincount(texts, weights=errors) / np.bincount(texts))}
    if judges is None:
        return found
    _, which, counts = np.unique(judges, return_inverse=True, return_counts=True)
    means = np.bincount(which.reshape(-1), weights=errors) / counts
    means = np.sort(means[counts >= _FEWEST])[::-1]
    if len(means) < 1 / _WORST:
        return found

    def worst(weights: Array) -> Array:
        """The mean of the highest errors, as many as make a tenth of the resampled judges."""
        before = np.cumsum(weights, axis=-1) - weights
        taken = np.clip(_WORST - before, 0.0, weights)
        return np.asarray((taken * means).sum(axis=-1) / taken.sum(axis=-1))

    identity = sparse.csr_array(sparse.identity(len(means)))
    rows = np.arange(len(means))
    return found | {"worst_tenth": Metric(name="worst_tenth", statistics=identity, rows=rows, formula=worst)}
