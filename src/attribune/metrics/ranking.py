"""Ranks of what was looked for, and metrics of them. Shapes: n rows, m distinct texts, H the size of a vector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Array, Metric

__all__ = ["RECALL_AT", "Ranks", "mean_reciprocal_rank", "positive_ranks", "recall_at"]

RECALL_AT = (1, 5, 10)
_CELLS = 2**22  # cosines that are held at once
_ROUNDING = 1e-9  # of equal cosines


class Ranks(NamedTuple):
    """How many texts are `above` what was looked for, (n,), and how many others are `beside` it, with an equal score.

    Metrics of equal scores are the means over all orders of these texts.
    """

    above: Array
    beside: Array


def positive_ranks(anchors: Array, positives: Array, texts: Array) -> Ranks:
    """Rank each row's own positive among the distinct positives of all rows, by the product.

    Args:
        anchors: (n, H), as `positives`; of texts that occur in several rows the vector in the first row counts.
        texts: (n,), equal for rows with the same positive.
    """
    _, firsts, numbers = np.unique(texts, return_index=True, return_inverse=True)
    documents, numbers, own = positives[firsts], numbers.reshape(-1), (anchors * positives).sum(axis=1)
    ranks = Ranks(np.zeros(len(anchors)), np.zeros(len(anchors)))
    step = max(1, _CELLS // max(1, len(firsts)))
    for start in range(0, len(anchors), step):
        some = slice(start, start + step)
        lead = anchors[some] @ documents.T - own[some, None]
        lead[np.arange(len(lead)), numbers[some]] = -np.inf
        ranks.above[some] = (lead > _ROUNDING).sum(axis=1)
        ranks.beside[some] = (np.abs(lead) <= _ROUNDING).sum(axis=1)
    return ranks


def mean_reciprocal_rank(ranks: Ranks) -> Metric:
    """Return the mean of the reciprocal ranks, between 0 and 1."""
    places = ranks.beside + 1  # of which each is as likely; a difference of digammas is the sum of the reciprocals
    return mean_of("mrr", (digamma(ranks.above + places + 1) - digamma(ranks.above + 1)) / places)


def recall_at(k: int, ranks: Ranks) -> Metric:
    """Return the share of rows whose rank is at most k."""
    return mean_of(f"recall_at_{k}", np.clip((k - ranks.above) / (ranks.beside + 1), 0, 1))
