"""A metric as a formula over means of per-row statistics, and the units, rows or clusters, that a resample draws.

Shapes: n rows, G distinct rows of statistics, S statistics, D different units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.core.arrays import Array
from attribune.errors import DataError


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """A metric as tables, plots and sentences show it; shares of rows or classes are shown in per cent."""

    name: str
    higher_is_better: bool = True
    is_share: bool = False

    @property
    def scale(self) -> int:
        """The factor by which shown values are multiplied."""
        return 100 if self.is_share else 1

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the most that it can be, as far as that is known."""
        if self.is_share:
            return 0.0, 1.0
        if self.name in _CORRELATIONS:
            return -1.0, 1.0
        least = 0.0 if self.name in _ERRORS and self.name != "loss" else -np.inf  # that of a density may be below 0
        return least, 1.0 if self.name == "r2" else np.inf

    @property
    def is_score(self) -> bool:
        """Whether it is a share or a correlation, of which a mean over data sets can be taken."""
        return self.is_share or self.name in _CORRELATIONS

    @property
    def words(self) -> str:
        """The name in a sentence."""
        return self.name.replace("_", " ")

    @property
    def label(self) -> str:
        """The name beside an axis, with its unit."""
        return f"{self.words}{self.unit and f' ({self.unit})'}"

    @property
    def unit(self) -> str:
        """The unit of shown values; empty for numbers in the unit of the labels."""
        return "%" if self.is_share else ""


_SHARES = (
    *("accuracy", "subset_accuracy", "mean_accuracy", "exact_match"),
    *("error_rate", "f1", "macro_f1", "micro_f1", "precision", "recall"),
    *("recall_at_1", "recall_at_5", "recall_at_10"),
    *("rouge_1", "rouge_2", "rouge_l", "chrf"),
)
_ERRORS = (
    *("loss", "rmse", "mae", "log_loss", "perplexity"),
    *("cross_entropy", "manhattan", "jensen_shannon", "wasserstein", "absolute_distance", "worst_tenth"),
)
_CORRELATIONS = ("matthews", "kappa", "pearson", "spearman")  # no shares: they go below 0
METRICS = {
    **{name: MetricInfo(name=name, is_share=True, higher_is_better=name != "error_rate") for name in _SHARES},
    **{name: MetricInfo(name=name, higher_is_better=False) for name in _ERRORS},
    **{name: MetricInfo(name=name) for name in ("r2", "mrr", *_CORRELATIONS)},
}


def metric_info(name: str) -> MetricInfo:
    """Return the definition of a metric by its name; the accuracy of one aspect is called ``accuracy_ASPECT``."""
    if name.startswith("accuracy_"):
        return MetricInfo(name=name, is_share=True)
    return METRICS.get(name) or MetricInfo(name=name)


Formula = Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of one set of rows, in a form that can be resampled.

    Args:
        name: for `metric_info`, for example `accuracy`.
        statistics: (G, S) distinct rows of statistics, dense or a scipy sparse array.
        rows: (n,) the index in `statistics` of each row of the data.
        formula: from means of the statistics (..., S) to the metric (...).
        pairs: (S, 2) for a correlation: the true and the predicted value that each statistic counts.
        clusters: (n,) each, what tells the clusters of a kind apart: rows of one cluster are not independent, so that
            a bootstrap draws clusters instead of rows. Up to two kinds, such as texts and judges.
    """

    name: str
    statistics: Any
    rows: Array
    formula: Formula
    pairs: Array | None = None
    clusters: tuple[Array, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a metric over no rows, whose value would not be a number, and clusters of other rows."""
        if len(self.rows) == 0:
            raise DataError(f"the metric {self.name!r} has 0 rows to be computed on: give at least one labelled row")
        if len(self.clusters) > 2 or any(cluster.shape != self.rows.shape for cluster in self.clusters):
            shapes = [cluster.shape for cluster in self.clusters]
            raise DataError(
                f"the clusters of the metric {self.name!r} have the shapes {shapes}: give one or two arrays of shape "
                f"{self.rows.shape}, a cluster for each row"
            )

    def __len__(self) -> int:
        """Return the number of rows n."""
        return len(self.rows)

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value is better; False for errors such as `rmse`."""
        return metric_info(self.name).higher_is_better

    def value(self) -> float:
        """Return the metric over all rows."""
        counts = np.bincount(self.rows, minlength=self.statistics.shape[0])
        return float(self.of_counts(counts[None, :])[0])

    def select(self, mask: Array) -> Metric:
        """Return the metric over the rows for which a mask (n,) holds."""
        return replace(self, rows=self.rows[mask], clusters=tuple(cluster[mask] for cluster in self.clusters))

    def of_counts(self, counts: Array) -> Array:
        """Return the metric (R,) of R resamples, given how often each row of `statistics` occurs in each: (R, G)."""
        weights = counts.astype(np.float64)
        return self.of_totals(weights @ self.statistics, weights.sum(axis=-1, keepdims=True))

    def of_totals(self, totals: Array, rows: Array) -> Array:
        """Return the metric (R,), given the sums of the statistics (R, S) over the rows of each resample.

        Args:
            rows: (R, 1) the number of rows that are summed.
        """
        return np.asarray(self.formula(totals / rows))


def as_pair(true: npt.ArrayLike, predicted: npt.ArrayLike, *, axes: int = 1) -> tuple[Array, Array]:
    """Return true and predicted values as arrays; DataError unless both have the same shape, of this many axes."""
    first, second = np.asarray(true), np.asarray(predicted)
    if first.shape != second.shape or first.ndim != axes:
        raise DataError(
            f"true values have shape {first.shape} and predictions {second.shape}:"
            f" give two arrays of the same shape with {axes} axes"
        )
    return first, second


_COMPARED_CELLS = 40_000_000  # numbers in the array by which clusters with the same content are found


def cluster_codes(metric: Metric) -> list[Array]:
    """Return the number of each row's cluster (n,) for every kind with two clusters or more, but fewer than rows."""
    codes = [np.unique(cluster, return_inverse=True)[1].reshape(-1) for cluster in metric.clusters]
    return [numbers for numbers in codes if 0 < numbers.max() < len(metric) - 1]


def unit_count(metric: Metric) -> int:
    """Return the number of units: of rows, or of the clusters of the kind that has the fewest."""
    return min((int(numbers.max()) + 1 for numbers in cluster_codes(metric)), default=len(metric))


def equal_clusters(numbers: Array) -> float:
    """Return how many clusters of the same size have a mean as uncertain as these (n,), at least 2: n² / Σ n_g²."""
    sizes = np.bincount(numbers).astype(np.float64)
    return max(2.0, float(sizes.sum() ** 2 / (sizes**2).sum()))


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
