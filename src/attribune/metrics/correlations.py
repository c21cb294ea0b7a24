"""Correlations as metrics, whose statistics count pairs of a true and a predicted value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.core.arrays import Array
from attribune.metrics.metric import Formula, Metric, as_pair

__all__ = ["of_pairs", "pearson", "quotient", "spearman"]


def quotient(covariance: Array, spread: Array) -> Array:
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


def _of_arrays(name: str, true: npt.ArrayLike, predicted: npt.ArrayLike) -> Metric:
    values = np.stack(as_pair(true, predicted), axis=1).astype(np.float64)
    pairs, rows = np.unique(values, axis=0, return_inverse=True)
    return of_pairs(name, sparse.eye_array(len(pairs), format="csr"), rows=rows.reshape(-1), pairs=pairs)


def of_pairs(name: str, statistics: Any, *, rows: Array, pairs: Array) -> Metric:
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
        return quotient(covariance, xx * yy)

    return formula


def _ranks(weights: Array, column: Array) -> Array:
    """Return ranks, between 0 and 1, of values with weights (..., S); `column` (S,) is the place of each in order."""
    members = sparse.csr_array((np.ones(len(column)), (np.arange(len(column)), column)))
    shares = (weights.reshape(-1, len(column)) @ members).reshape(*weights.shape[:-1], -1)
    return np.asarray((np.cumsum(shares, axis=-1) - shares / 2)[..., column])
