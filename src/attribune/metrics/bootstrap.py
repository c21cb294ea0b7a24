"""Percentile bootstrap: intervals of one metric, and the paired comparison of two.

Over rows: rows with equal statistics are interchangeable, so that a resample is a count per distinct row: a multinomial
draw, with exactly the distribution of drawing n rows with replacement, at a cost independent of n.

Over clusters (`Metric.clusters`), whose rows are not independent, such as the judgements of one text: clusters are
drawn with replacement, with all their rows. With two kinds of clusters, such as texts and judges, both are drawn, and a
row counts as often as its text times its judge (the pigeonhole bootstrap, Owen 2007), which is conservative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.errors import ConfigError, DataError
from attribune.metrics.metric import Metric

__all__ = ["Interval", "PairedResult", "interval", "paired", "paired_mean"]

Array = npt.NDArray[Any]

_CHUNK_CELLS = 2_000_000  # numbers in one array; a few of these arrays exist together, below 200 MB
_CACHED_CELLS = 40_000_000  # counts of resampled rows that are cached for the next metric, at most two sets of 160 MB
_MANY_GROUPS = 50_000
_FEWEST_RESAMPLES = 1_000
_SPARSE = 8  # with fewer rows per group than this, rows are drawn one by one
_ROUNDING = 1e-12  # floating-point sums turn a zero difference into a few units in the last place


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A metric with its percentile interval; `resamples` is the number drawn."""

    value: float
    low: float
    high: float
    level: float = 0.95
    resamples: int


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """The difference a - b of one metric of two models on the same rows.

    Args:
        difference: in the unit of the metric; for errors such as RMSE a negative difference favours a.
        low: lower end of its percentile interval.
        high: upper end.
        p_value: two-sided, of the null hypothesis that there is no difference.
        level: of the interval.
        resamples: the number drawn.
    """

    difference: float
    low: float
    high: float
    p_value: float
    level: float = 0.95
    resamples: int

    @property
    def shows_difference(self) -> bool:
        """Whether p is below 0.05 and the interval lies on one side of zero."""
        return self.p_value < 0.05 and not self.low <= 0 <= self.high


def interval(metric: Metric, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return the value of a metric and its percentile bootstrap interval, over its clusters or else over its rows.

    With G > 50,000 distinct rows of statistics, `resamples` is multiplied by 50,000 / G, but not reduced below 1,000;
    the result holds the number drawn. A metric that is biased in resamples, such as macro-F1 with many classes of a few
    rows, has a percentile interval that lies to one side of its value. Where all rows are of one cluster, such as one
    judge, the interval is for that one; resamples of two kinds in which no row is left, as happens with a handful of
    rows, do not count.
    """
    (drawn,) = _resampled([metric], level=level, resamples=resamples, seed=seed)
    low, high = _ends(drawn, level)
    return Interval(value=metric.value(), low=low, high=high, level=level, resamples=len(drawn))


def paired(
    metric_a: Metric, metric_b: Metric, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> PairedResult:
    """Compare the same metric of two models; every resample draws the same rows, or clusters, for both.

    The p-value is (1 + the number of resamples whose difference lies at least as far from the observed difference d as
    d lies from 0) / (1 + resamples): the resampled differences, shifted to mean no difference, are the distribution
    under the null hypothesis. It is at least 1 / (1 + resamples), and 1 if d is 0. The number of resamples is reduced
    as in `interval`, by the number of distinct pairs of rows.
    """
    return _result(*_differences(metric_a, metric_b, level=level, resamples=resamples, seed=seed), level=level)


def paired_mean(
    pairs: Sequence[tuple[Metric, Metric]], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> PairedResult:
    """Compare two models on several data sets: the mean over the sets of the difference of a metric on each.

    Every resample draws rows of each set anew. The interval is over the rows of these sets, and not over other sets
    that might have been taken.

    Args:
        pairs: the metric of both models on each set; the metrics of different sets may differ.
    """
    every = [
        _differences(first, second, level=level, resamples=resamples, seed=seed + number)
        for number, (first, second) in enumerate(pairs)
    ]
    observed, drawn, slacks = zip(*every, strict=True)
    count = min(map(len, drawn))
    return _result(
        float(np.mean(observed)), np.mean([values[:count] for values in drawn], axis=0), max(slacks), level=level
    )


def _differences(
    metric_a: Metric, metric_b: Metric, *, level: float, resamples: int, seed: int
) -> tuple[float, Array, float]:
    """Return the difference of a metric of two models, that of each resample, and how far rounding may move them."""
    if metric_a.name != metric_b.name:
        raise DataError(
            f"{metric_a.name!r} cannot be compared with {metric_b.name!r}: compare the same metric of two models"
        )
    if len(metric_a) != len(metric_b):
        raise DataError(
            f"{metric_a.name!r} was computed on {len(metric_a)} and on {len(metric_b)} rows:"
            " evaluate both models on the same rows in the same order"
        )
    if not _equal(metric_a.clusters, metric_b.clusters):
        raise DataError(
            f"{metric_a.name!r} of two models has rows of different clusters: evaluate both with the same clusters"
        )
    distinct_b = metric_b.statistics.shape[0]
    pairs, rows = np.unique(metric_a.rows.astype(np.int64) * distinct_b + metric_b.rows, return_inverse=True)
    first = replace(metric_a, statistics=metric_a.statistics[pairs // distinct_b], rows=rows)
    second = replace(metric_b, statistics=metric_b.statistics[pairs % distinct_b], rows=rows)
    of_first, of_second = _resampled([first, second], level=level, resamples=resamples, seed=seed)
    slack = _ROUNDING * max(1.0, abs(metric_a.value()), abs(metric_b.value()))
    return metric_a.value() - metric_b.value(), of_first - of_second, slack


def _result(observed: float, drawn: Array, slack: float, *, level: float) -> PairedResult:
    low, high = _ends(drawn, level)
    as_far = int((np.abs(drawn - observed) >= abs(observed) - slack).sum())
    return PairedResult(
        difference=observed,
        low=low,
        high=high,
        p_value=(1 + as_far) / (1 + len(drawn)),
        level=level,
        resamples=len(drawn),
    )


def _ends(drawn: Array, level: float) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _equal(clusters: Sequence[Array], others: Sequence[Array]) -> bool:
    return len(clusters) == len(others) and all(map(np.array_equal, clusters, others))


def _resampled(metrics: Sequence[Metric], *, level: float, resamples: int, seed: int) -> list[Array]:
    """Return the values of each metric (R,) of the same rows in the same resamples of them.

    What is drawn is a unit of rows: its statistics are summed once, so that a resample costs a product with the sums.
    In chunks, so that memory stays bounded.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level is {level}: give a number between 0 and 1, such as 0.95")
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}: give at least 1; 10000 is usual")
    metric = metrics[0]
    codes = [np.unique(cluster, return_inverse=True)[1].reshape(-1) for cluster in metric.clusters]
    codes = [numbers for numbers in codes if numbers.any()]
    cells = None
    if len(codes) == 2:
        contents, cells = _cells(metric, np.stack(codes))
        counts = np.ones(cells.shape[1], dtype=np.int64)
    else:
        counts, contents = _drawn_together(metric, *codes)
    columns = _summed(metrics, contents)
    resamples, chunk = _fewer(resamples, len(counts)), _chunk(*columns.shape)
    if cells is not None:
        drawn = _by_both(cells, chunk=chunk, resamples=resamples, seed=seed)
    elif len(counts) * _SPARSE > counts.sum():
        drawn = _by_row(counts, resamples=resamples, seed=seed)
    else:
        drawn = _by_group(counts, chunk=chunk, resamples=resamples, seed=seed)
    step = _chunk(columns.shape[1])
    pieces = (part[start : start + step] for part in drawn for start in range(0, len(part), step))
    ends = np.cumsum([one.statistics.shape[1] for one in metrics])
    values = []
    for piece in pieces:
        *totals, rows = np.split(piece.astype(np.float64, copy=False) @ columns, ends, axis=1)
        values.append([one.of_totals(total, rows) for one, total in zip(metrics, totals, strict=True)])
    return [np.concatenate(parts) for parts in zip(*values, strict=True)]


def _summed(metrics: Sequence[Metric], contents: Any) -> Any:
    """Return the sums of all metrics' statistics over the rows of each unit, and their number last: (D, S + 1).

    Args:
        contents: (D, G) how often each unit holds each row of statistics; None if these are the units.
    """
    blocks = [*(one.statistics for one in metrics), np.ones((metrics[0].statistics.shape[0], 1))]
    if any(map(sparse.issparse, blocks)):
        joined: Any = sparse.hstack(blocks, format="csr")
    else:
        joined = np.hstack(blocks)
    return joined if contents is None else contents @ joined


def _chunk(*widths: int) -> int:
    """Return how many resamples with so many numbers each are computed at a time."""
    return max(1, _CHUNK_CELLS // max(widths))


def _fewer(resamples: int, units: int) -> int:
    """The number of resamples of so many different things to draw."""
    if units <= _MANY_GROUPS:
        return resamples
    return min(resamples, max(_FEWEST_RESAMPLES, resamples * _MANY_GROUPS // units))


def _drawn_together(metric: Metric, cluster: Array | None = None) -> tuple[Array, Any]:
    """Return what is drawn: how often each different thing occurs (D,), and the statistics' rows that it holds (D, G).

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
    if len(sizes) * int(sizes.max()) <= _CACHED_CELLS:
        position = np.arange(len(cluster)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        contents = np.full((len(sizes), sizes.max()), -1, dtype=np.int64)
        contents[cluster[order], position] = metric.rows[order]
        which = np.unique(contents, axis=0, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(which)
    one_of_each = np.isin(cluster, np.unique(which, return_index=True)[1])
    place = which[cluster[one_of_each]], metric.rows[one_of_each]
    return counts, sparse.csr_array((np.ones(len(place[0])), place), shape=(len(counts), groups))


def _cells(metric: Metric, codes: Array) -> tuple[Any, Array]:
    """Return the pairs of two kinds of clusters (2, n) that occur (2, C), and the statistics' rows in each (C, G)."""
    cells, of_row = np.unique(codes, axis=1, return_inverse=True)
    place = of_row.reshape(-1), metric.rows
    return sparse.csr_array((np.ones(len(metric)), place), shape=(cells.shape[1], metric.statistics.shape[0])), cells


def _by_both(cells: Array, *, chunk: int, resamples: int, seed: int) -> Iterator[Array]:
    """Draw how often each pair of two kinds of clusters (2, C) occurs (R, C) if both kinds are drawn."""
    draws = [
        _drawn(int(cell.max()) + 1, resamples, chunk=chunk, seed=2 * seed + number) for number, cell in enumerate(cells)
    ]
    for first, second in zip(*draws, strict=True):
        drawn = np.multiply(first.take(cells[0], axis=1), second.take(cells[1], axis=1), dtype=np.float64)
        yield drawn[drawn.any(axis=1)]


def _by_group(counts: Array, *, chunk: int, resamples: int, seed: int) -> Iterator[Array]:
    """Draw how often each group occurs (R, G): a multinomial."""
    generator, rows = np.random.default_rng(seed), int(counts.sum())
    for start in range(0, resamples, chunk):
        yield generator.multinomial(rows, counts / rows, size=min(chunk, resamples - start))


def _by_row(counts: Array, *, resamples: int, seed: int) -> Iterator[Array]:
    """Draw the same row by row: cheaper for few rows per group, and shared by all metrics of equally many rows."""
    row_count, occupied = int(counts.sum()), np.flatnonzero(counts)
    starts = np.cumsum(counts[occupied]) - counts[occupied]
    for chunk in _drawn(row_count, resamples, chunk=_chunk(row_count), seed=seed):
        if len(counts) == row_count == len(occupied):
            yield chunk
        else:
            group_counts = np.zeros((len(chunk), len(counts)), dtype=np.int64)
            group_counts[:, occupied] = np.add.reduceat(chunk, starts, axis=1, dtype=np.int64)
            yield group_counts


def _drawn(number: int, resamples: int, *, chunk: int, seed: int) -> Iterable[Array]:
    """Draw so many things with replacement, and count how often each occurs (R, number), in chunks of resamples."""
    draw = _cached if number * resamples <= _CACHED_CELLS else _anew
    return draw(number, resamples, chunk, seed)


@lru_cache(maxsize=2)
def _cached(number: int, resamples: int, chunk: int, seed: int) -> tuple[Array, ...]:
    return tuple(_anew(number, resamples, chunk, seed))


def _anew(number: int, resamples: int, chunk: int, seed: int) -> Iterator[Array]:
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, chunk):
        yield _counts(generator, number, min(chunk, resamples - start)).astype(np.int32)


def _counts(generator: np.random.Generator, number: int, resamples: int) -> Array:
    """Draw so many things with replacement, and count how often each occurs (R, number)."""
    counts = np.zeros(resamples * number, dtype=np.int64)
    offsets = number * np.arange(resamples)[:, None]
    for done in range(0, number, _CHUNK_CELLS):
        drawn = generator.integers(number, size=(resamples, min(_CHUNK_CELLS, number - done)))
        counts += np.bincount((drawn + offsets).reshape(-1), minlength=counts.size)
    return counts.reshape(resamples, number)
