"""How far the people who judged the same texts agree, as seen and as predicted.

Shapes: n judgements, T texts with two judgements or more each, K answers.
"""

from __future__ import annotations

import numpy as np

from attribune.core.arrays import Array

__all__ = [
    "answer_distances",
    "expected_distances",
    "mean_differences",
]


def answer_distances(answers: int, positions: Array | None = None) -> Array:
    """Return how far answers are from each other (K, K): 1 for two different ones, or the difference of their numbers.

    Args:
        positions: (K,) numbers of ordered answers.
    """
    if positions is None:
        return 1.0 - np.identity(answers)
    return np.abs(np.subtract.outer(positions, positions)).astype(np.float64)


def expected_distances(p: Array, texts: Array, distances: Array) -> Array:
    """Return the mean distance of the answers of two people who judge a text, (T,), over all pairs i, j of them.

    That is the mean of ``Σ_kl p_ik D_kl p_jl``. For answers that are seen, p is 1 for the answer that was given; with
    distances of 0 and 1 it is then 1 less the agreement ``P_i`` of Fleiss 1971, Measuring Nominal Scale Agreement among
    Many Raters.

    Args:
        p: (n, K) probabilities of the answers of each judgement.
        texts: (n,) numbers of texts, 0 to T - 1.
        distances: (K, K), zero on the diagonal.
    """
    counts = np.bincount(texts)
    sums = np.zeros((len(counts), p.shape[1]))
    np.add.at(sums, texts, p)
    among_all = ((sums @ distances) * sums).sum(axis=1)
    with_itself = np.bincount(texts, weights=((p @ distances) * p).sum(axis=1))
    return np.asarray(np.maximum(among_all - with_itself, 0.0) / (counts * (counts - 1)))


def mean_differences(values: Array, texts: Array) -> Array:
    """Return the mean of ``|v_i - v_j|`` over all pairs of the judgements (n,) of each text, (T,)."""
    order = np.lexsort((values, texts))
    ordered, which = values[order], texts[order]
    counts = np.bincount(which)
    rank = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    weights = 2.0 * rank - (counts[which] - 1)  # the value is above so many of its text, less those it is below
    sums = np.bincount(which, weights=weights * (ordered - ordered.mean()))
    return np.asarray(np.maximum(sums, 0.0) / (counts * (counts - 1) / 2))
