"""Intervals of one metric, and the paired comparison of two, which needs a test beside its interval.

Intervals are those of the percentile bootstrap, except for shares of rows, whose intervals invert a score test
(`wilson`, `paired_wilson`): the bootstrap has no width at 0 and 1, because of thirty rows that are all wrong, every
resample is all wrong. The test is that of `attribune.metrics.sign_flips`.

Over rows: rows with equal statistics are interchangeable, so that a resample is a count per distinct row: a multinomial
draw, with exactly the distribution of drawing n rows with replacement, at a cost independent of n.

Over clusters (`Metric.clusters`), whose rows are not independent, such as the judgements of one text: clusters are
drawn with replacement, with all their rows. With two kinds of clusters, such as texts and judges, each kind is drawn
alone, and the deviations are added and scaled to the variance over both (`_over_clusters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from scipy import sparse, special, stats

from attribune.core.arrays import Array
from attribune.errors import ConfigError, DataError
from attribune.metrics.metric import Metric, cluster_codes, different_units, equal_clusters, metric_info, unit_count
from attribune.metrics.sign_flips import FlipTest, flip_test, flipped, test_of_flips

YesOrNo = Literal["yes", "no", "not shown"]
"""Whether the first of two models is better: yes or no where the interval shows it."""

_HALVINGS = 50


def effective_rows(spread: float, variance: float, *, units: int) -> float:
    """Return of how many independent rows a share has the variance that it has.

    Args:
        spread: the variance of one independent row, p (1 - p) for a share p.
        variance: of the share, as it was estimated over its rows or clusters.
        units: the number of rows or clusters, which counts where none of them differs.
    """
    return spread / variance if spread > 0 and variance > 0 else float(units)


def wilson(share: float, rows: float, *, level: float) -> tuple[float, float]:
    """Return the interval of a share of independent rows; Wilson 1927, Probable Inference, the Law of Succession.

    It holds the shares π whose distance from p is at most z √(π (1 - π) / n); (0, 1) without rows.
    """
    if rows <= 0:
        return 0.0, 1.0
    z = float(stats.norm.ppf((1 + level) / 2))
    middle, half = share + z**2 / (2 * rows), z * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    low, high = ((middle + sign * half) / (1 + z**2 / rows) for sign in (-1, 1))
    return min(share, max(0.0, float(low))), max(share, min(1.0, float(high)))


def paired_wilson(up: float, down: float, rows: float, *, level: float) -> tuple[float, float]:
    """Return the interval of the difference ``up - down`` of two shares of the same independent rows.

    It holds the differences δ whose score test, McNemar's for δ = 0, is not beyond z: Tango 1998, Equivalence Test and
    Confidence Interval for the Difference in Proportions for the Paired-Sample Design.

    Args:
        up: the share of the rows that only the first model has right.
        down: the share that only the second one has right.
        rows: their number n, which may be a fraction.
    """
    z = float(stats.norm.ppf((1 + level) / 2))
    difference = up - down

    def is_beyond(delta: float) -> bool:
        """Whether the score test of a difference is beyond z."""
        b, c = (2 - difference) * delta - up - down, -down * delta * (1 - delta)
        only_second = (np.sqrt(max(0.0, b * b - 8 * c)) - b) / 4  # the likeliest share, given the difference
        variance = max(0.0, 2 * only_second + delta * (1 - delta)) / rows
        return bool((difference - delta) ** 2 > z**2 * variance)

    return _end(is_beyond, difference, -1.0), _end(is_beyond, difference, 1.0)


def _end(is_beyond: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the end of an interval between a point in it and a limit of the scale, by bisection."""
    if not is_beyond(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if is_beyond(middle) else (middle, outside)
    return inside


_CHUNK_CELLS = 2_000_000  # numbers in one array; a few of these arrays exist together, below 200 MB
_CACHED_CELLS = 40_000_000  # counts of resampled rows that are cached for the next metric, at most three sets of 160 MB
_MANY_GROUPS = 50_000
_FEWEST_RESAMPLES = 1_000
_SPARSE = 8  # with fewer rows per group than this, rows are drawn one by one
_OFF_MEDIAN = 1e-6  # at the median, the quantiles of the normal and of Student's distribution are both 0
_ROUNDING = 1e-12  # floating-point sums turn a zero difference into a few units in the last place


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A metric with its interval; `resamples` is the number drawn, 0 for a formula."""

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
        low: lower end of its interval.
        high: upper end.
        p_value: two-sided, of the null hypothesis that there is no difference.
        level: of the interval.
        resamples: the number drawn.
        differing: the number of rows, or of clusters, in which the two differ; None in early files.
        smallest: the smallest difference that these rows could have shown; None where none could be, and in early
            files.
    """

    difference: float
    low: float
    high: float
    p_value: float
    level: float = 0.95
    resamples: int
    differing: int | None = None
    smallest: float | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> PairedResult:
        """Take the figures out of a record that has other keys as well, such as that of a comparison."""
        return PairedResult(**{name: record[name] for name in PairedResult.__dataclass_fields__ if name in record})

    @property
    def shows_difference(self) -> bool:
        """Whether p is below 0.05, or 1 - `level` if that is less, and the interval lies on one side of zero."""
        return self.p_value < min(0.05, round(1 - self.level, 12)) and not self.low <= 0 <= self.high

    def answer(self, metric: str) -> YesOrNo:
        """Whether a is better than b, if the difference is one of this metric."""
        if not self.shows_difference:
            return "not shown"
        return "yes" if (self.difference > 0) == metric_info(metric).higher_is_better else "no"

    @property
    def standard_error(self) -> float:
        """That of the difference, about, by the width of its interval."""
        return (self.high - self.low) / (2 * NormalDist().inv_cdf(0.5 + self.level / 2))

    @property
    def can_show_none(self) -> bool:
        """Whether too few rows differ for any difference to be shown."""
        return self.differing is not None and self.smallest is None


def interval(metric: Metric, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return the value of a metric and its interval, over its clusters or else over its rows.

    A share of rows has the Wilson interval, of as many independent rows as have its variance where there are clusters.
    Other metrics have the percentile interval of the bootstrap, which at 0 and 1 reaches as far as that of Wilson for
    shares such as F1. With G > 50,000 distinct rows of statistics, `resamples` is multiplied by 50,000 / G, but not
    reduced below 1,000; the result holds the number drawn. A metric that is biased in resamples, such as macro-F1 with
    many classes of a few rows, has a percentile interval that lies to one side of its value. Where all rows are of one
    cluster, such as one judge, the interval is for that one.
    """
    _check_settings(level, resamples)
    value, of_rows = metric.value(), _row_values(metric)
    if of_rows is not None and not cluster_codes(metric):
        low, high = _share_ends(value, float(of_rows.var()) / len(metric), metric, level)
        return Interval(value=value, low=low, high=high, level=level, resamples=0)
    drawn = _draws([metric], value, resamples=resamples, seed=seed)
    if of_rows is not None:
        low, high = _share_ends(value, drawn.variance(level), metric, level)
    else:
        low, high = _ends(drawn.values, level)
        if metric_info(metric.name).is_share and value in (0.0, 1.0):
            limits = wilson(value, _rows_that_count(metric), level=level)
            low, high = min(low, limits[0]), max(high, limits[1])
    return Interval(value=value, low=low, high=high, level=level, resamples=len(drawn.values))


def _row_values(metric: Metric) -> Array | None:
    """Return the value of each row (n,) of a share that is their mean; None for another metric."""
    statistics = metric.statistics
    if not metric_info(metric.name).is_share or sparse.issparse(statistics) or statistics.shape[1] != 1:
        return None
    values: Array = statistics[metric.rows, 0]
    return values if values.min() >= 0 and values.max() <= 1 else None


def _share_ends(share: float, variance: float, metric: Metric, level: float) -> tuple[float, float]:
    rows = effective_rows(share * (1 - share), variance, units=unit_count(metric))
    return wilson(share, rows, level=level)


def _rows_that_count(metric: Metric) -> int:
    """Return the number of units, or of rows that add to a metric, such as those with a class or one predicted."""
    adds = np.flatnonzero(np.asarray(abs(metric.statistics).sum(axis=1)).reshape(-1))
    return min(unit_count(metric), int(np.isin(metric.rows, adds).sum()))


def paired(
    metric_a: Metric, metric_b: Metric, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> PairedResult:
    """Compare the same metric of two models; every resample draws the same rows, or clusters, for both.

    The p-value is the larger one of two. That of the sign-flip test (`flip_test`) needs at least six rows in which the
    models differ to be below 0.05; for an accuracy it is the exact sign test. That of the bootstrap is (1 + the number
    of resamples whose difference lies at least as far from the observed difference d as d lies from 0) /
    (1 + resamples). It is at least 1 / (1 + resamples), and 1 if d is 0. The interval of a share of rows is Tango's,
    that of other metrics the percentile interval; both hold zero where the test shows no difference. The number of
    resamples is reduced as in `interval`, by the number of distinct pairs of rows.
    """
    first, second = _on_the_same_rows(metric_a, metric_b)
    observed, drawn, slack = _differences(first, second, level=level, resamples=resamples, seed=seed)
    test = flip_test(first, second, resamples=len(drawn.values), seed=seed)
    ours, theirs = _row_values(first), _row_values(second)
    ends = None
    if ours is not None and theirs is not None:
        gaps = ours - theirs
        variance = drawn.variance(level) if cluster_codes(first) else float(gaps.var()) / len(gaps)
        up, down = float(np.maximum(gaps, 0).mean()), float(np.maximum(-gaps, 0).mean())
        rows = effective_rows(up + down - (up - down) ** 2, variance, units=unit_count(first))
        ends = paired_wilson(up, down, rows, level=level)
    crossed = len(cluster_codes(first)) > 1
    return _result(observed, drawn.values, slack, test, ends=ends, level=level, crossed=crossed)


def paired_mean(
    pairs: Sequence[tuple[Metric, Metric]], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> PairedResult:
    """Compare two models on several data sets: the mean over the sets of the difference of a metric on each.

    Every resample draws rows of each set anew. The interval is over the rows of these sets, and not over other sets
    that might have been taken.

    Args:
        pairs: the metric of both models on each set; the metrics of different sets may differ.
    """
    if len(pairs) == 1:
        return paired(*pairs[0], level=level, resamples=resamples, seed=seed)
    same = [_on_the_same_rows(*pair) for pair in pairs]
    every = [
        _differences(first, second, level=level, resamples=resamples, seed=seed + number)
        for number, (first, second) in enumerate(same)
    ]
    observed, found, slacks = zip(*every, strict=True)
    drawn = [one.values for one in found]
    count, mean = min(map(len, drawn)), float(np.mean(observed))
    turned, differing = zip(
        *(flipped(*pair, resamples=count, seed=seed + number) for number, pair in enumerate(same)), strict=True
    )
    test = test_of_flips(mean, np.mean(turned, axis=0), differing=sum(differing))
    values, crossed = np.mean([one[:count] for one in drawn], axis=0), any(len(cluster_codes(a)) > 1 for a, _ in same)
    return _result(mean, values, max(slacks), test, level=level, crossed=crossed)


def _on_the_same_rows(metric_a: Metric, metric_b: Metric) -> tuple[Metric, Metric]:
    """Return two metrics whose rows are numbered alike, by the pairs of their statistics; DataError for other rows."""
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
    return first, second


def _differences(
    first: Metric, second: Metric, *, level: float, resamples: int, seed: int
) -> tuple[float, _Draws, float]:
    """Return the difference of a metric of two models, that of each resample, and how far rounding may move them."""
    _check_settings(level, resamples)
    observed, slack = first.value() - second.value(), _ROUNDING * max(1.0, abs(first.value()), abs(second.value()))
    return observed, _draws([first, second], observed, resamples=resamples, seed=seed), slack


def _result(
    observed: float,
    drawn: Array,
    slack: float,
    test: FlipTest,
    *,
    level: float,
    ends: tuple[float, float] | None = None,
    crossed: bool = False,
) -> PairedResult:
    """Return what is shown by the difference of each resample (R,) and a test.

    Args:
        ends: of the interval, if not those of the resamples.
        crossed: whether clusters of two kinds were drawn; the test flips one kind at a time, and the interval, which is
            over both, may need a larger difference.
    """
    low, high = _ends(drawn, level) if ends is None else ends
    smallest = test.smallest
    if crossed and smallest is not None:
        smallest = max(smallest, (high - low) / 2)
    as_far = int((np.abs(drawn - observed) >= abs(observed) - slack).sum())
    p_value = max((1 + as_far) / (1 + len(drawn)), test.p_value)
    if test.p_value >= 1 - level:  # an interval of few rows is too narrow
        low, high = min(low, 0.0), max(high, 0.0)
    return PairedResult(
        difference=observed,
        low=low,
        high=high,
        p_value=p_value,
        level=level,
        resamples=len(drawn),
        differing=test.differing,
        smallest=smallest,
    )


def _ends(drawn: Array, level: float) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _equal(clusters: Sequence[Array], others: Sequence[Array]) -> bool:
    return len(clusters) == len(others) and all(map(np.array_equal, clusters, others))


def _check_settings(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level is {level}: give a number between 0 and 1, such as 0.95")
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}: give at least 1; 10000 is usual")


@dataclass(frozen=True, kw_only=True)
class _Draws:
    """The values that a metric, or the difference of two, has in resamples.

    Args:
        values: (R,), spread as far as the level of an interval needs.
        squared_error: the variance of the metric as it was estimated.
        freedom: the degrees of freedom of that estimate.
    """

    values: Array
    squared_error: float
    freedom: float = np.inf

    def variance(self, level: float) -> float:
        """The variance that has, in an interval of the normal distribution, the width of one of Student's."""
        quantile = (1 + level) / 2
        return self.squared_error * float(special.stdtrit(self.freedom, quantile) / special.ndtri(quantile)) ** 2


def _draws(metrics: Sequence[Metric], observed: float, *, resamples: int, seed: int) -> _Draws:
    """Draw rows or clusters of one metric, or of the difference between two on the same rows.

    Args:
        observed: the value of what is drawn.
    """

    def drawn(cluster: Array | None, resamples: int, seed: int) -> Array:
        first, *second = _resampled(metrics, cluster, resamples=resamples, seed=seed)
        return first - second[0] if second else first

    codes = cluster_codes(metrics[0])
    if not codes:
        values = drawn(None, resamples, seed)
        return _Draws(values=values, squared_error=float(values.var()))
    seeds, of_cells = [seed], None
    if len(codes) == 2:
        *seeds, last = range(3 * seed, 3 * seed + 3)
        cells = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].reshape(-1)
        # Of cells only the variance counts, which needs fewer resamples than the ends of an interval.
        fewer = min(resamples, max(_FEWEST_RESAMPLES, resamples // 4))
        of_cells = drawn(cells if cells.max() + 1 < len(cells) else None, fewer, last)
    kinds = [drawn(numbers, resamples, one) for numbers, one in zip(codes, seeds, strict=True)]
    counts = [equal_clusters(numbers) for numbers in codes]
    found = _over_clusters(kinds, counts, observed, cells=of_cells)
    least, most = metric_info(metrics[0].name).limits
    limits = (least, most) if len(metrics) == 1 else (least - most, most - least)
    return replace(found, values=np.clip(found.values, *limits))


def _over_clusters(
    kinds: Sequence[Array], counts: Sequence[float], observed: float, *, cells: Array | None = None
) -> _Draws:
    """Return the draws of a metric whose rows are in clusters of one kind, or of two that cross.

    The variance over texts and judges is ``V = V_texts + V_judges - V_cells``, and at least the larger of the first
    two, where a cell is the judgements of one text by one judge: what rows of a cell share is in both of the first
    terms. Each term is the variance over the clusters of a kind, times ``G / (G - 1)`` for G of them (Cameron, Gelbach
    and Miller 2011, Robust Inference with Multiway Clustering). An estimate from few clusters is uncertain: Student's
    distribution takes the place of the normal one, with ``1 / Σ ((V_k / V)² / (G_k - 1))`` degrees of freedom
    (Satterthwaite 1946), at least one.

    Deviations from the mean of the resamples are added over the kinds and scaled to V, and each of their quantiles is
    multiplied by the ratio of Student's to the normal one. Their mean is moved from the observed value as V is made up.

    Args:
        kinds: (R,) for each kind, the values in resamples of its clusters.
        counts: G of each kind, see `equal_clusters`.
        observed: the value of the metric.
        cells: its values in resamples of cells, where there are two kinds.
    """
    length = min(map(len, kinds))
    variances = [float(drawn.var()) * count / (count - 1) for drawn, count in zip(kinds, counts, strict=True)]
    total = sum(variances)
    mean = observed + sum(float(drawn.mean()) - observed for drawn in kinds)
    if cells is not None:
        total = max(total - float(cells.var()), *variances)
        mean -= float(cells.mean()) - observed
    deviations = np.sum([drawn[:length] - drawn.mean() for drawn in kinds], axis=0)
    spread = float(deviations.std())
    if not spread > 0 or not total > 0:
        return _Draws(values=np.full(length, mean), squared_error=total)
    terms = ((variance / total) ** 2 / (count - 1) for variance, count in zip(variances, counts, strict=True))
    freedom = max(1.0, 1 / sum(terms))
    quantiles = (np.arange(length) + 0.5 + _OFF_MEDIAN) / length
    wider = np.empty(length)
    wider[np.argsort(deviations)] = special.stdtrit(freedom, quantiles) / special.ndtri(quantiles)
    values = mean + total**0.5 / spread * wider * deviations
    return _Draws(values=values, squared_error=total, freedom=freedom)


def _resampled(metrics: Sequence[Metric], cluster: Array | None, *, resamples: int, seed: int) -> list[Array]:
    """Return the values of each metric (R,) of the same rows in the same resamples of them.

    What is drawn is a unit of rows: its statistics are summed once, so that a resample costs a product with the sums.
    In chunks, so that memory stays bounded.

    Args:
        cluster: (n,) the number of each row's cluster, if clusters are drawn.
    """
    counts, contents = different_units(metrics[0], cluster)
    columns = _summed(metrics, contents)
    resamples, chunk = _fewer(resamples, len(counts)), _chunk(*columns.shape)
    if len(counts) * _SPARSE > counts.sum():
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


@lru_cache(maxsize=3)
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
