"""Metrics as formulas over means of per-row statistics.

Every metric here is `formula(mean over rows of the row's statistics)`. A resample of the rows is then one weighted
mean, which is what makes the bootstrap of `attribune.metrics.bootstrap` fast. Values equal those of scikit-learn with
`zero_division=0`; shares are between 0 and 1.

Shapes: n rows, G distinct rows of statistics, S statistics, C classes; of ranks, m distinct texts,
vectors of size H.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special
from scipy.special import digamma

from attribune.core.arrays import Array
from attribune.errors import DataError
from attribune.metrics.metric import Formula, Metric, as_pair


def _first(means: Array) -> Array:
    return np.asarray(means[..., 0])


def _root(means: Array) -> Array:
    return np.asarray(np.sqrt(means[..., 0]))


def mean_of(name: str, values: Array, *, formula: Formula = _first) -> Metric:
    """Return the metric whose only statistic is one number per row (n,)."""
    distinct, rows = np.unique(values.astype(np.float64), return_inverse=True)
    return Metric(name=name, statistics=distinct[:, None], rows=rows.reshape(-1), formula=formula)


def _f1_of(hits: Array, predicted: Array, true: Array) -> Array:
    """F1 = 2 TP / (predicted + true); 0 where a class is neither predicted nor true."""
    total = predicted + true
    return np.asarray(2 * hits / np.where(total > 0, total, 1.0))


def _f1_formula(means: Array) -> Array:
    return _f1_of(means[..., 0], means[..., 1], means[..., 2])


def _of_counts(name: str, *counts: npt.ArrayLike, formula: Formula) -> Metric:
    """Return the metric whose statistics are several numbers of each row, (n,) each."""
    distinct, rows = np.unique(np.stack(list(map(np.asarray, counts)), axis=1), axis=0, return_inverse=True)
    return Metric(name=name, statistics=distinct.astype(np.float64), rows=rows.reshape(-1), formula=formula)


def f1_of_counts(name: str, hits: npt.ArrayLike, predicted: npt.ArrayLike, true: npt.ArrayLike) -> Metric:
    """Return the F1 over all rows of how many are predicted rightly, predicted and true in each row, (n,) each."""
    return _of_counts(name, hits, predicted, true, formula=_f1_formula)


def _ratio_formula(means: Array) -> Array:
    return np.asarray(means[..., 0] / np.where(means[..., 1] > 0, means[..., 1], 1.0))


def ratio(name: str, part: npt.ArrayLike, whole: npt.ArrayLike) -> Metric:
    """Return the sum of counts (n,) of rows over the sum of other counts (n,); 0 where the latter is 0."""
    return _of_counts(name, part, whole, formula=_ratio_formula)


def _macro_present_formula(means: Array) -> Array:
    """Mean F1 over the classes that are true or predicted in at least one row of the resample."""
    hits, predicted, true = np.split(means, 3, axis=-1)
    present = (predicted + true) > 0
    return np.asarray(_f1_of(hits, predicted, true).sum(axis=-1) / present.sum(axis=-1))


def _macro_all_formula(means: Array) -> Array:
    return np.asarray(_f1_of(*np.split(means, 3, axis=-1)).mean(axis=-1))


def accuracy(true: npt.ArrayLike, predicted: npt.ArrayLike, *, name: str = "accuracy") -> Metric:
    """Return the share of rows whose predicted class id (n,) equals the true one (n,)."""
    first, second = as_pair(true, predicted)
    return mean_of(name, first == second)


def f1(true: npt.ArrayLike, predicted: npt.ArrayLike, *, positive: int) -> Metric:
    """Return the F1 of the class id `positive`; 0 where it is neither true nor predicted."""
    first, second = as_pair(true, predicted)
    is_true, is_predicted = first == positive, second == positive
    return f1_of_counts("f1", is_true & is_predicted, is_predicted, is_true)


def macro_f1(true: npt.ArrayLike, predicted: npt.ArrayLike, *, classes: int) -> Metric:
    """Return the mean F1 over the classes that occur in at least one row, as scikit-learn's `average="macro"`.

    True ids outside 0..C-1 (labels unseen in training) form one more class, whose F1 is 0, as in scikit-learn.
    """
    statistics, rows = _confusions(true, predicted, classes)
    return Metric(name="macro_f1", statistics=statistics, rows=rows, formula=_macro_present_formula)


def _confusions(true: npt.ArrayLike, predicted: npt.ArrayLike, classes: int) -> tuple[Any, Array]:
    """Return per distinct pair of classes the hit, prediction and true class, one-hot (G, 3 (C + 1)), and rows (n,)."""
    first, second = as_pair(true, predicted)
    if second.size and (second.min() < 0 or second.max() >= classes):
        raise DataError(f"a predicted class id is {second.min()} or {second.max()}: ids go from 0 to {classes - 1}")
    width = classes + 1
    known = np.where((first >= 0) & (first < classes), first, classes).astype(np.int64)
    codes, rows = np.unique(known * width + second.astype(np.int64), return_inverse=True)
    is_true, is_predicted = codes // width, codes % width
    groups = np.arange(len(codes))
    hit = groups[is_true == is_predicted]
    index = (
        np.concatenate([hit, groups, groups]),
        np.concatenate([is_true[hit], width + is_predicted, 2 * width + is_true]),
    )
    statistics = sparse.csr_array((np.ones(len(index[0])), index), shape=(len(codes), 3 * width))
    return statistics, rows.reshape(-1)


def _matthews_formula(means: Array) -> Array:
    """(c - p·t) / sqrt((1 - p·p)(1 - t·t)) of the share c of hits and the shares p, t of the classes."""
    hits, predicted, true = np.split(means, 3, axis=-1)
    spread = (1 - np.square(predicted).sum(axis=-1)) * (1 - np.square(true).sum(axis=-1))
    return _quotient(hits.sum(axis=-1) - (predicted * true).sum(axis=-1), spread)


def matthews(true: npt.ArrayLike, predicted: npt.ArrayLike, *, classes: int) -> Metric:
    """Return the Matthews correlation of class ids (n,), between -1 and 1 (Gorodkin 2004 for more than two classes).

    It is 0 where all rows have one class, true or predicted. True ids outside 0..C-1 form one more class.
    """
    statistics, rows = _confusions(true, predicted, classes)
    return Metric(name="matthews", statistics=statistics, rows=rows, formula=_matthews_formula)


def label_micro_f1(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the F1 over all (row, class) cells of two 0/1 arrays (n, C), for several labels per row."""
    first, second = (array.astype(bool) for array in as_pair(true, predicted, axes=2))
    return f1_of_counts("micro_f1", (first & second).sum(axis=1), second.sum(axis=1), first.sum(axis=1))


def label_macro_f1(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the mean F1 over all C columns of two 0/1 arrays (n, C), as scikit-learn's `average="macro"`.

    A column that is neither true nor predicted in any row counts 0.
    """
    first, second = (array.astype(bool) for array in as_pair(true, predicted, axes=2))
    distinct, rows = np.unique(np.packbits(np.hstack([first, second]), axis=1), axis=0, return_inverse=True)
    classes = first.shape[1]
    cells = np.unpackbits(distinct, axis=1, count=2 * classes).astype(bool)
    is_true, is_predicted = cells[:, :classes], cells[:, classes:]
    statistics = sparse.csr_array(np.hstack([is_true & is_predicted, is_predicted, is_true]).astype(np.float64))
    return Metric(name="macro_f1", statistics=statistics, rows=rows.reshape(-1), formula=_macro_all_formula)


def subset_accuracy(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the share of rows where all C cells of two 0/1 arrays (n, C) agree."""
    first, second = (array.astype(bool) for array in as_pair(true, predicted, axes=2))
    return mean_of("subset_accuracy", (first == second).all(axis=1))


def mean_accuracy(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the accuracy averaged over aspects, from class ids (n, aspects)."""
    first, second = as_pair(true, predicted, axes=2)
    return mean_of("mean_accuracy", (first == second).mean(axis=1))


def log_loss(true: npt.ArrayLike, logits: npt.ArrayLike) -> Metric:
    """Return the mean of -log p(true class) in nats, from class ids (n,) and unnormalised log-probabilities (n, C).

    Unlike accuracy it reflects changes of probabilities that do not change a prediction, and so distinguishes two
    models on fewer rows.
    """
    classes, scores = np.asarray(true), np.asarray(logits, dtype=np.float64)
    if classes.ndim != 1 or scores.ndim != 2 or len(classes) != len(scores):
        raise DataError(
            f"true classes have shape {classes.shape} and logits {scores.shape}: give (n,) classes and (n, C) logits"
        )
    losses = special.logsumexp(scores, axis=1) - np.take_along_axis(scores, classes[:, None], axis=1)[:, 0]
    return mean_of("log_loss", losses)


def rmse(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the root of the mean squared error of two arrays (n,), in the unit of the values."""
    first, second = as_pair(true, predicted)
    return mean_of("rmse", np.square(first - second), formula=_root)


def mae(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the mean absolute error of two arrays (n,), in the unit of the values."""
    first, second = as_pair(true, predicted)
    return mean_of("mae", np.abs(first - second))


def _r2_formula(means: Array) -> Array:
    """1 - E[e²] / (E[y²] - E[y]²); without variance 1 if there is no error and 0 otherwise, as in scikit-learn."""
    error, value, square = means[..., 0], means[..., 1], means[..., 2]
    variance = square - value**2
    # Below the rounding error of the subtraction the true values are constant.
    varies = variance > 1e-12 * square
    explained = 1 - error / np.where(varies, variance, 1.0)
    return np.asarray(np.where(varies, explained, np.where(error == 0, 1.0, 0.0)))


def r2(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the share of the variance of true values (n,) that predictions (n,) explain; it may be negative."""
    first, second = (array.astype(np.float64) for array in as_pair(true, predicted))
    # Centred first, so that large values with a small spread do not cancel.
    centred = first - first.mean() if len(first) else first
    statistics = np.stack([np.square(first - second), centred, np.square(centred)], axis=1)
    return Metric(name="r2", statistics=statistics, rows=np.arange(len(first)), formula=_r2_formula)


_ROUNDING = 1e-12  # of an agreement that is none


def _kappa_formula(means: Array) -> Array:
    square, true, predicted, true_square, predicted_square = np.moveaxis(means, -1, 0)
    by_chance = true_square + predicted_square - 2 * true * predicted
    found = np.where(by_chance > 0, 1 - square / np.where(by_chance > 0, by_chance, 1.0), 0.0)
    return np.where(np.abs(found) < _ROUNDING, 0.0, found)


def kappa(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return Cohen's kappa with quadratic weights, of the numbers (n,) of ordered classes.

    That is 1 - E[(i - j)²] / E_chance[(i - j)²], where i and j are drawn apart by chance; 0 where all rows have one
    class, which scikit-learn leaves undefined.
    """
    first, second = (array.astype(np.float64) for array in as_pair(true, predicted))
    pairs, rows = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
    i, j = pairs.T
    statistics = np.stack([np.square(i - j), i, j, np.square(i), np.square(j)], axis=1)
    return Metric(name="kappa", statistics=statistics, rows=rows.reshape(-1), formula=_kappa_formula)


def _perplexity_formula(means: Array) -> Array:
    return np.asarray(np.exp(means[..., 0] / means[..., 1]))


def perplexity(nats: npt.ArrayLike, tokens: npt.ArrayLike) -> Metric:
    """Return exp(mean negative log-likelihood of a token), from the sums of rows in nats (n,) and in tokens (n,)."""
    first, second = as_pair(nats, tokens)
    if len(second) and not second.sum() > 0:
        raise DataError(f"none of the {len(second)} texts has a token: give rows with a text")
    return Metric(
        name="perplexity",
        statistics=np.stack([first, second], axis=1).astype(np.float64),
        rows=np.arange(len(first)),
        formula=_perplexity_formula,
    )


RECALL_AT = (1, 5, 10)
_CELLS = 2**22  # cosines that are held at once
_SAME_COSINE = 1e-9  # of equal cosines


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
        ranks.above[some] = (lead > _SAME_COSINE).sum(axis=1)
        ranks.beside[some] = (np.abs(lead) <= _SAME_COSINE).sum(axis=1)
    return ranks


def mean_reciprocal_rank(ranks: Ranks) -> Metric:
    """Return the mean of the reciprocal ranks, between 0 and 1."""
    places = ranks.beside + 1  # of which each is as likely; a difference of digammas is the sum of the reciprocals
    return mean_of("mrr", (digamma(ranks.above + places + 1) - digamma(ranks.above + 1)) / places)


def recall_at(k: int, ranks: Ranks) -> Metric:
    """Return the share of rows whose rank is at most k."""
    return mean_of(f"recall_at_{k}", np.clip((k - ranks.above) / (ranks.beside + 1), 0, 1))


def _quotient(covariance: Array, spread: Array) -> Array:
    """Return covariance / sqrt(spread), 0 where one of the two variables is constant."""
    varies = spread > 1e-14
    return np.asarray(np.where(varies, covariance / np.sqrt(np.where(varies, spread, 1.0)), 0.0))


def pearson(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the Pearson correlation of two arrays (n,), between -1 and 1; 0 where one of them is constant."""
    return _of_arrays("pearson", true, predicted)


def spearman(true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    """Return the rank correlation of two arrays (n,), between -1 and 1; equal values share their mean rank.

    It is 0 where one array is constant. Ranks are those among the rows that are drawn, in every resample anew.
    """
    return _of_arrays("spearman", true, predicted)


OF_NUMBERS = {make.__name__: make for make in (rmse, mae, r2, pearson, spearman)}
"""The metrics of true and predicted numbers, by name."""


def _of_arrays(name: str, true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    values = np.stack(as_pair(true, predicted), axis=1).astype(np.float64)
    pairs, rows = np.unique(values, axis=0, return_inverse=True)
    return _of_pairs(name, sparse.eye_array(len(pairs), format="csr"), rows=rows.reshape(-1), pairs=pairs)


def _of_pairs(name: str, statistics: Any, *, rows: Array, pairs: Array) -> Metric:
    """Return the correlation whose statistics (G, S) count pairs (S, 2) of a true and a predicted value."""
    formula = (_correlation if name == "pearson" else _rank_correlation)(pairs)
    return Metric(name=name, statistics=statistics, rows=rows, formula=formula, pairs=pairs)


def _correlation(pairs: Array) -> Formula:
    # Centred and scaled first, so that large values with a small spread do not cancel.
    centred = pairs - (pairs.mean(axis=0) if len(pairs) else 0)
    scale = np.abs(centred).max(axis=0, initial=0)
    x, y = (centred / np.where(scale > 1e-14 * np.abs(pairs).max(initial=0), scale, np.inf)).T

    def formula(weights: Array) -> Array:
        mean_x, mean_y = weights @ x, weights @ y
        x_unit, y_unit = _deviation(weights @ (x * x), mean_x), _deviation(weights @ (y * y), mean_y)
        return np.asarray((weights @ (x * y) - mean_x * mean_y) / x_unit / y_unit)

    return formula


def _deviation(square: Array, mean: Array) -> Array:
    """Return the standard deviation from E[x²] and E[x]; infinity where no more than rounding is left of it.

    That is judged by E[x²], as the rows that are drawn may lack the ones that are far from all others.
    """
    variance = square - mean**2
    varies = variance > 1e-13 * square
    return np.where(varies, np.sqrt(np.where(varies, variance, 1.0)), np.inf)


def _rank_correlation(pairs: Array) -> Formula:
    columns = [np.unique(values, return_inverse=True)[1].reshape(-1) for values in pairs.T]

    def formula(weights: Array) -> Array:
        x, y = (_ranks(weights, column) - 0.5 for column in columns)
        covariance, xx, yy = ((weights * product).sum(axis=-1) for product in (x * y, x * x, y * y))
        return _quotient(covariance, xx * yy)

    return formula


def _ranks(weights: Array, column: Array) -> Array:
    """Return ranks, between 0 and 1, of values with weights (..., S); `column` (S,) is the place of each in order."""
    members = sparse.csr_array((np.ones(len(column)), (np.arange(len(column)), column)))
    shares = (weights.reshape(-1, len(column)) @ members).reshape(*weights.shape[:-1], -1)
    return np.asarray((np.cumsum(shares, axis=-1) - shares / 2)[..., column])


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
        _of_pairs(
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
