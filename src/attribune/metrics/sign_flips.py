"""The sign-flip test of two models on the same units: what is between them if it is chance which of the two is which.

Under the null hypothesis the two models may change places in every unit, a row or a cluster, and the difference of the
metric is one of those that come of it (Fisher 1935, The Design of Experiments, chapter 3). For the share of rows that
are right this is the exact sign test over the rows of which one model alone is right. Units in which the two are equal
do not count, and with k others p is at least 2 / 2^k: fewer than six never show a difference at 0.05.

Shapes: R differences, D different units, S statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats

from attribune.core.arrays import Array
from attribune.metrics.formulas import over_pairs
from attribune.metrics.metric import Metric, cluster_codes, different_units, metric_info

FEWEST_DIFFERING = 6
"""Units in which two models differ, below which no test shows a difference at p = 0.05."""

_CHUNK_CELLS = 2_000_000  # numbers in one array
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class FlipTest:
    """What a sign-flip test found.

    Args:
        p_value: two-sided.
        differing: the number of units in which the two models differ, of the kind with the fewest.
        smallest: the smallest difference that would have p < 0.05, in the metric's unit; None where there is none.
    """

    p_value: float
    differing: int
    smallest: float | None


@dataclass(frozen=True)
class _Units:
    """Units in which two models differ.

    Args:
        counts: (D,) how often each different one occurs.
        change: (D, S) the second model's statistics less those of the first.
    """

    counts: Array
    change: Any

    @classmethod
    def of(cls, first: Metric, second: Metric, cluster: Array | None) -> _Units:
        counts, contents = different_units(first, cluster)
        change = second.statistics - first.statistics
        if contents is not None:
            change = contents @ change
        sizes = np.asarray(abs(change).max(axis=1).todense() if sparse.issparse(change) else np.abs(change).max(axis=1))
        differs = (sizes.reshape(-1) > _ROUNDING) & (counts > 0)
        return cls(counts[differs], change[np.flatnonzero(differs)])

    def __len__(self) -> int:
        return int(self.counts.sum())

    def is_even(self) -> bool:
        """Whether all units differ in one statistic, by the same amount."""
        if not len(self) or self.change.shape[1] != 1 or sparse.issparse(self.change):
            return False
        sizes = np.abs(self.change)
        return bool(np.ptp(sizes) <= _ROUNDING * sizes.max())


def flip_test(first: Metric, second: Metric, *, resamples: int, seed: int = 0) -> FlipTest:
    """Test the difference of a metric of two models; of two kinds of clusters, the less certain one counts.

    Args:
        first: of the same rows and clusters as `second`, and with `rows` that number pairs of both models' statistics.
        resamples: sign flips that are drawn, where not all can be tried.
    """
    first, second = _alike(first, second)
    found = [_test(first, second, cluster, resamples, seed) for cluster in _kinds(first)]
    smallest = [one.smallest for one in found]
    return FlipTest(
        p_value=max(one.p_value for one in found),
        differing=min(one.differing for one in found),
        smallest=None if None in smallest else max(one for one in smallest if one is not None),
    )


def flipped(first: Metric, second: Metric, *, resamples: int, seed: int = 0) -> tuple[Array, int]:
    """Return differences (R,) with the models changed round at random, and in how many units the two differ.

    Of two kinds of clusters, those of the kind where they spread most.
    """
    first, second = _alike(first, second)
    found = [_Units.of(first, second, cluster) for cluster in _kinds(first)]
    drawn = [_drawn(first, second, units, resamples, seed) for units in found]
    return max(drawn, key=lambda values: float(values.std())), min(map(len, found))


def test_of_flips(observed: float, drawn: Array, *, differing: int) -> FlipTest:
    """Return the test of a difference, given those of random sign flips (R,)."""
    slack = _ROUNDING * max(1.0, abs(observed))
    as_far = int((np.abs(drawn) >= abs(observed) - slack).sum())
    p_value = (1 + as_far) / (1 + len(drawn))
    return FlipTest(p_value=p_value, differing=differing, smallest=_smallest(np.abs(drawn), slack))


def _kinds(metric: Metric) -> list[Array | None]:
    """Return the clusters of each kind (n,), or None for rows without any."""
    return [*cluster_codes(metric)] or [None]


def _alike(first: Metric, second: Metric) -> tuple[Metric, Metric]:
    """Return two metrics whose statistics mean the same, so that they can change places."""
    if first.pairs is None or second.pairs is None:
        return first, second
    both = over_pairs([first, second], np.concatenate([first.pairs, second.pairs]))
    return both[0], both[1]


def _test(first: Metric, second: Metric, cluster: Array | None, resamples: int, seed: int) -> FlipTest:
    units = _Units.of(first, second, cluster)
    observed, count = first.value() - second.value(), len(units)
    if metric_info(first.name).is_share and units.is_even():
        losses = int(units.counts[units.change[:, 0] > 0].sum())
        needed = max(count, FEWEST_DIFFERING)
        step = abs(float(units.change[0, 0])) / len(first)
        can = len(first) >= FEWEST_DIFFERING if cluster is None else count >= FEWEST_DIFFERING
        return FlipTest(
            p_value=float(stats.binomtest(losses, count).pvalue),
            differing=count,
            smallest=step * _decisive(needed) if can else None,
        )
    if not _may_swap(first, second):
        return FlipTest(p_value=2.0 ** (1 - min(max(1, count), 1_000)), differing=count, smallest=None)
    if count < 60 and 2**count <= resamples:
        drawn, slack = _every(first, second, units), _ROUNDING * max(1.0, abs(first.value()), abs(second.value()))
        p_value = float((np.abs(drawn) >= abs(observed) - slack).mean())
        return FlipTest(p_value=p_value, differing=count, smallest=_smallest(np.abs(drawn), slack))
    return test_of_flips(observed, _drawn(first, second, units, resamples, seed), differing=count)


def _may_swap(first: Metric, second: Metric) -> bool:
    """Whether both models' statistics are read by the same formula, and not by one that was made for a model."""
    return first.formula is second.formula or first.pairs is not None


def _smallest(sizes: Array, slack: float) -> float | None:
    """Return the smallest of the differences (R,) that less than a twentieth of them reach; None without one."""
    ordered = np.sort(sizes)
    reached = len(ordered) - np.searchsorted(ordered, ordered - slack)
    rare = ordered[reached < 0.05 * len(ordered)]
    return float(rare[0]) if len(rare) else None


def _decisive(count: int) -> int:
    """Return by how many wins more than losses among so many the exact sign test has p < 0.05."""
    losses = int(stats.binom.ppf(0.025, count, 0.5))
    while losses >= 0 and 2 * stats.binom.cdf(losses, count, 0.5) >= 0.05:
        losses -= 1
    return count - 2 * losses


def _every(first: Metric, second: Metric, units: _Units) -> Array:
    """Return the differences of all 2^k sign flips."""
    count = len(units)
    signs = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    which = np.repeat(np.arange(len(units.counts)), units.counts)
    swapped = np.zeros((len(signs), len(units.counts)))
    for column, unit in enumerate(which):
        swapped[:, unit] += signs[:, column]
    return _differences(first, second, swapped @ units.change)


def _drawn(first: Metric, second: Metric, units: _Units, resamples: int, seed: int) -> Array:
    """Return the differences of random sign flips."""
    generator, counts = np.random.default_rng(seed), units.counts
    if not _may_swap(first, second):  # all units at once
        return np.asarray(generator.choice([-1.0, 1.0], size=resamples) * (first.value() - second.value()))
    step = max(1, _CHUNK_CELLS // max(1, len(counts), units.change.shape[1]))
    parts = []
    for start in range(0, resamples, step):
        shape = min(step, resamples - start), len(counts)
        if (counts == 1).all():
            swapped = generator.integers(0, 2, size=shape, dtype=np.int8).astype(np.float64)
        else:
            swapped = generator.binomial(counts, 0.5, size=shape).astype(np.float64)
        parts.append(_differences(first, second, swapped @ units.change))
    return np.concatenate(parts)


def _differences(first: Metric, second: Metric, moved: Array) -> Array:
    """Return the differences (R,) where the sums `moved` (R, S) are the first model's, and taken from the second."""
    counts = np.bincount(first.rows, minlength=first.statistics.shape[0]).astype(np.float64)[None, :]
    rows = np.full((len(moved), 1), float(len(first)))
    ours = first.of_totals(counts @ first.statistics + moved, rows)
    theirs = second.of_totals(counts @ second.statistics - moved, rows)
    return np.asarray(ours - theirs)
