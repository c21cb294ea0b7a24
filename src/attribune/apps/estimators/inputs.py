"""What estimators of scikit-learn are given, as columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from attribune.errors import AttribuneError, DataError
from attribune.models.row_inputs import RowInput, RowNames
from attribune.schema.columns import as_array, column_names

__all__ = ["read_columns"]


def read_columns(
    estimator: BaseEstimator, X: Any, names: RowNames, *, is_fit: bool, continues: bool = False
) -> pa.Table:
    """Read a table, rows, or texts; the columns of an array are ``x0``, ``x1`` and so on, as in scikit-learn.

    Args:
        estimator: at `is_fit` it gets ``n_features_in_`` and ``feature_names_in_``. Later tables may have other columns
            beside those that are read, as for a `ColumnTransformer`; later arrays must have as many.
        continues: whether a training goes on, for which arrays count as later ones.

    Raises:
        DataError: naming the column that is missing, or column and row of a value that cannot be used.
        ValueError: of scikit-learn, for an array that is no matrix.
    """
    if isinstance(X, pd.DataFrame) and is_fit:
        validate_data(estimator, X, skip_check_array=True)
    if _is_array(X):
        least = 2 if is_fit else 1  # one row is for validation
        array = validate_data(
            estimator, X, reset=is_fit and not continues, dtype=None, ensure_all_finite=False, ensure_min_samples=least
        )
        X = {f"x{number}": array[:, number] for number in range(array.shape[1])}
        if lacking := [name for name in names.columns(X) if name not in X]:
            raise DataError(
                f"an array has no names: its columns are {', '.join(X)}, and the estimator reads {', '.join(lacking)}; "
                "give a table, or build the estimator for these columns, as in text='x0', attributes=['x1'] (what bags "
                "or boosts estimators hands them an array)"
            )
    columns = RowInput.read(X, names, {}).columns
    found = {name: as_array(columns[name], column=name) for name in names.columns(column_names(columns))}
    for name in column_names(columns):
        if isinstance(name, str) and name not in found:
            # What cannot be read is left out: perhaps nobody reads it.
            with suppress(AttribuneError, pa.ArrowException, KeyError, TypeError, ValueError):
                found[name] = as_array(columns[name], column=name)
    return pa.table(found)


def _is_array(given: Any) -> bool:
    """Whether something is a matrix or is to be refused as one, rather than a table, rows or texts."""
    if issparse(given):  # some sparse matrices are mappings too
        return True
    if isinstance(given, Mapping | pd.DataFrame | datasets.Dataset) or hasattr(given, "__arrow_c_stream__"):
        return False
    values = list(given[:1]) if isinstance(given, list | tuple | np.ndarray) else []
    return not values or not isinstance(values[0], str | Mapping | None)
