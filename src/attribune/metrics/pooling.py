"""One metric over the rows of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.core.arrays import Array
from attribune.errors import DataError
from attribune.metrics.correlations import of_pairs
from attribune.metrics.metric import Metric

__all__ = ["over_pairs", "pooled"]


def pooled(metrics: Sequence[Metric], keys: Sequence[npt.ArrayLike] | None = None) -> Metric:
    """Return one metric over the rows of several, such as the folds of a cross-validation.

    A row that occurs in several of them, as with other seeds on the same test rows, is drawn as one in a bootstrap,
    since its copies are not independent; clusters, which must be told apart in the same way in all of them, are drawn
    as they are. A pooled `r2` measures the variance within the folds.

    Args:
        metrics: the same metric of the same classes.
        keys: for each metric (n,), identifies its rows in the data set; None if all rows are different.

    Raises:
        DataError: for metrics of different names or statistics.
    """
    first = metrics[0]
    pairs = [metric.pairs for metric in metrics if metric.pairs is not None]
    if len(pairs) == len(metrics):
        metrics = over_pairs(metrics, np.concatenate(pairs))
        first = metrics[0]
    widths = {(metric.name, metric.statistics.shape[1]) for metric in metrics}
    if len(widths) > 1:
        raise DataError(f"metrics over different classes cannot be pooled ({sorted(widths)}): give the classes")
    starts = np.cumsum([0, *(metric.statistics.shape[0] for metric in metrics[:-1])])
    blocks = [metric.statistics for metric in metrics]
    statistics = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.vstack(blocks)
    rows = np.concatenate([start + metric.rows for start, metric in zip(starts, metrics, strict=True)])
    kinds = {len(metric.clusters) for metric in metrics}
    if len(kinds) > 1:
        raise DataError(f"metrics with {sorted(kinds)} kinds of clusters cannot be pooled: give all of them the same")
    clusters = tuple(map(np.concatenate, zip(*(metric.clusters for metric in metrics), strict=True)))
    combined = replace(first, statistics=statistics, rows=rows, clusters=clusters)
    if keys is None or clusters:
        return combined
    rows_of_set = np.concatenate([np.asarray(key) for key in keys])
    return combined if len(np.unique(rows_of_set)) == len(rows) else replace(combined, clusters=(rows_of_set,))


def over_pairs(metrics: Sequence[Metric], pairs: Array) -> list[Metric]:
    """Return correlations whose statistics count the pairs of all of them, equal ones together."""
    pairs, places = np.unique(pairs, axis=0, return_inverse=True)
    starts = np.cumsum([0, *(metric.statistics.shape[1] for metric in metrics)])
    shapes = [(metric.statistics.shape[0], len(pairs)) for metric in metrics]
    joined = [
        of_pairs(
            metric.name,
            sparse.csr_array(
                (
                    metric.statistics.data,
                    places.reshape(-1)[metric.statistics.indices + start],
                    metric.statistics.indptr,
                ),
                shape,
            ),
            rows=metric.rows,
            pairs=pairs,
        )
        for metric, start, shape in zip(metrics, starts, shapes, strict=False)
    ]
    return [replace(metric, clusters=before.clusters) for metric, before in zip(joined, metrics, strict=True)]
