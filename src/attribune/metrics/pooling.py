"""One metric over the rows of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.errors import DataError
from attribune.metrics.correlations import of_pairs
from attribune.metrics.metric import Array, Metric

__all__ = ["pooled"]


def pooled(metrics: Sequence[Metric], keys: Sequence[npt.ArrayLike] | None = None) -> Metric:
    """Return one metric over the rows of several, such as the folds of a cross-validation.

    A row that occurs in several of them, as with other seeds on the same test rows, is drawn as one in a bootstrap,
    since its copies are not independent. A pooled `r2` measures the variance within the folds.

    Args:
        metrics: the same metric of the same classes.
        keys: for each metric (n,), identifies its rows in the data set; None if all rows are different.

    Raises:
        DataError: for metrics of different names or statistics.
    """
    first = metrics[0]
    pairs = [metric.pairs for metric in metrics if metric.pairs is not None]
    if len(pairs) == len(metrics):
        metrics = _over_pairs(metrics, np.concatenate(pairs))
        first = metrics[0]
    widths = {(metric.name, metric.statistics.shape[1]) for metric in metrics}
    if len(widths) > 1:
        raise DataError(f"metrics over different classes cannot be pooled ({sorted(widths)}): give the classes")
    starts = np.cumsum([0, *(metric.statistics.shape[0] for metric in metrics[:-1])])
    blocks = [metric.statistics for metric in metrics]
    statistics = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.vstack(blocks)
    rows = np.concatenate([start + metric.rows for start, metric in zip(starts, metrics, strict=True)])
    combined = replace(first, statistics=statistics, rows=rows)
    if keys is None:
        return combined
    distinct_keys, cluster = np.unique(np.concatenate([np.asarray(key) for key in keys]), return_inverse=True)
    if len(distinct_keys) == len(rows):
        return combined
    return _clustered(combined, cluster.reshape(-1), cluster_count=len(distinct_keys))


def _over_pairs(metrics: Sequence[Metric], pairs: Array) -> list[Metric]:
    """Return correlations whose statistics count the pairs of all of them."""
    starts = np.cumsum([0, *(metric.statistics.shape[1] for metric in metrics)])
    shapes = [(metric.statistics.shape[0], len(pairs)) for metric in metrics]
    return [
        of_pairs(
            metric.name,
            sparse.csr_array(
                (metric.statistics.data, metric.statistics.indices + start, metric.statistics.indptr), shape
            ),
            rows=metric.rows,
            pairs=pairs,
        )
        for metric, start, shape in zip(metrics, starts, shapes, strict=False)
    ]


def _clustered(metric: Metric, cluster: Array, *, cluster_count: int) -> Metric:
    """Return the metric with each cluster of rows (n,) drawn as one: sums of statistics, and row counts beside them."""
    order = np.lexsort((metric.rows, cluster))
    sizes = np.bincount(cluster, minlength=cluster_count)
    position = np.arange(len(cluster)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    contents = np.full((cluster_count, sizes.max()), -1, dtype=np.int64)
    contents[cluster[order], position] = metric.rows[order]
    distinct, rows = np.unique(contents, axis=0, return_inverse=True)
    cluster_index, column = np.nonzero(distinct >= 0)
    shape = (len(distinct), metric.statistics.shape[0])
    ones = np.ones(len(cluster_index))
    membership = sparse.csr_array((ones, (cluster_index, distinct[cluster_index, column])), shape=shape)
    sums = membership @ metric.statistics
    counts = (distinct >= 0).sum(axis=1, keepdims=True).astype(np.float64)
    if sparse.issparse(sums):
        statistics: Any = sparse.hstack([sums, sparse.csr_array(counts)], format="csr")
    else:
        statistics = np.hstack([sums, counts])
    formula = metric.formula
    return replace(
        metric,
        statistics=statistics,
        rows=rows.reshape(-1),
        formula=lambda means: formula(means[..., :-1] / means[..., -1:]),
    )
