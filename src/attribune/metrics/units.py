"""The units of a metric, which a resample draws and a test turns round: rows, or clusters of them.

Shapes: n rows, G distinct rows of statistics, D different units.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from attribune.metrics.metric import Array, Metric

__all__ = ["cluster_codes", "different_units", "unit_count"]

_COMPARED_CELLS = 40_000_000  # numbers in the array by which clusters with the same content are found


def cluster_codes(metric: Metric) -> list[Array]:
    """Return the number of each row's cluster (n,) for every kind that has two clusters or more."""
    codes = [np.unique(cluster, return_inverse=True)[1].reshape(-1) for cluster in metric.clusters]
    return [numbers for numbers in codes if numbers.any()]


def unit_count(metric: Metric) -> int:
    """Return the number of units: of rows, or of the clusters of the kind that has the fewest."""
    return min((int(numbers.max()) + 1 for numbers in cluster_codes(metric)), default=len(metric))


def different_units(metric: Metric, cluster: Array | None = None) -> tuple[Array, Any]:
    """Return how often each different unit occurs (D,), and the statistics' rows that it holds (D, G).

    Without clusters these are the distinct rows of statistics themselves (None), else clusters; those with the same
    content are not different.

    Args:
        cluster: (n,), the number of each row's cluster.
    """
    groups = metric.statistics.shape[0]
    if cluster is None:
        return np.bincount(metric.rows, minlength=groups), None
    order = np.lexsort((metric.rows, cluster))
    sizes = np.bincount(cluster)
    which = np.arange(len(sizes))
    if len(sizes) * int(sizes.max()) <= _COMPARED_CELLS:
        position = np.arange(len(cluster)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        contents = np.full((len(sizes), sizes.max()), -1, dtype=np.int64)
        contents[cluster[order], position] = metric.rows[order]
        which = np.unique(contents, axis=0, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(which)
    one_of_each = np.isin(cluster, np.unique(which, return_index=True)[1])
    place = which[cluster[one_of_each]], metric.rows[one_of_each]
    return counts, sparse.csr_array((np.ones(len(place[0])), place), shape=(len(counts), groups))
