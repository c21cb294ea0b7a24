"""What several people say of the same texts: how near predictions are to it, and how far people agree.

Shapes: n judgements, T texts, K answers, J judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special, stats

from attribune.core.arrays import Array
from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Metric

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
    """Return the means over texts of `distribution_distances`."""
    found = distribution_distances(true, predicted, positions=positions)
    return {name: mean_of(name, values) for name, values in found.items()}


def distribution_distances(true: Array, predicted: Array, *, positions: Array | None = None) -> dict[str, Array]:
    """Return how far the predicted distribution of each text is from the true one, (T,) of distributions (T, K).

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
    return found


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


_PRIOR_ROWS = 10  # judgements of all that count beside a judge's own in the variance of the judge
_GRID = 400  # standard deviations between judges that are averaged over
_WIDE = 4.0  # the largest of them, in spreads of the means


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


def others_means(values: Array, texts: Array) -> Array:
    """Return the mean of the other values of the same text, for each value: (n,) or (n, K)."""
    counts = np.bincount(texts)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, texts, values)
    others = (counts[texts] - 1).reshape(-1, *(1,) * (values.ndim - 1))
    return np.asarray((sums[texts] - values) / others)


def _spread_formula(means: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(means[..., 1] - means[..., 0] ** 2, 0.0)))


def spread(values: Array) -> Metric:
    """Return the standard deviation of values (n,)."""
    distinct, rows = np.unique(values.astype(np.float64), return_inverse=True)
    centred = distinct - distinct.mean() if len(distinct) else distinct  # large numbers do not cancel
    statistics = np.stack([centred, np.square(centred)], axis=1)
    return Metric(name="spread", statistics=statistics, rows=rows.reshape(-1), formula=_spread_formula)


@dataclass(frozen=True, kw_only=True)
class ShrunkenMeans:
    """Means of groups that are drawn towards zero, the more the fewer rows they are of.

    Args:
        means: (J,) of the values themselves.
        shrunken: (J,) posterior means.
        low: (J,) lower ends of their 95 % intervals.
        high: (J,) upper ends.
    """

    means: Array
    shrunken: Array
    low: Array
    high: Array


def shrunken_means(values: Array, groups: Array) -> ShrunkenMeans:
    """Estimate the means of groups that are draws from ``N(0, τ²)``, a random intercept (Laird and Ware 1982).

    The mean of group j has the variance ``v_j = s_j² / n_j``, where ``s_j²`` is the variance within the group, in which
    ten more rows have that of all groups; given τ its posterior mean is ``w m_j`` with ``w = τ² / (τ² + v_j)``, its
    variance ``w v_j``. Both are averaged over τ, whose prior is flat (Gelman 2006, Prior distributions for variance
    parameters in hierarchical models), so that intervals hold what is not known of τ. Their ends are those of a normal
    law with this mean and variance.

    Args:
        values: (n,).
        groups: (n,) numbers of groups, 0 to J - 1, each of which has a value.
    """
    counts = np.bincount(groups)
    means = np.bincount(groups, weights=values) / counts
    squares = np.bincount(groups, weights=np.square(values - means[groups]))
    pooled = squares.sum() / max(1, len(values) - len(counts))
    v = (squares + _PRIOR_ROWS * pooled) / (counts - 1 + _PRIOR_ROWS) / counts
    size = float(np.sqrt(np.square(means).mean() + v.mean()))
    if not size:
        return ShrunkenMeans(means=means, shrunken=means, low=means, high=means)
    v = np.maximum(v, (1e-6 * size) ** 2)  # groups whose values are all equal
    tau = np.linspace(0.0, _WIDE * size, _GRID)[:, None]
    variances = tau**2 + v
    log_likelihood = stats.norm.logpdf(means, scale=np.sqrt(variances)).sum(axis=1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    weights /= weights.sum()
    w = tau**2 / variances
    shrunken = weights @ (w * means)
    deviation = np.sqrt(weights @ (w * v + np.square(w * means)) - np.square(shrunken))
    half = stats.norm.ppf(0.975) * deviation
    return ShrunkenMeans(means=means, shrunken=shrunken, low=shrunken - half, high=shrunken + half)
