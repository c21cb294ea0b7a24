"""Weights of rows: how much each counts in the loss of a training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.errors import DataError, RowError
from attribune.schema.columns import Table, as_array, canonical, column_batches
from attribune.tasks.labels import number_of

__all__ = ["read_weights", "row_weights"]

_LARGEST = 1e9  # weights are relative: their products and sums have to be numbers of single precision
_CURE = f"give 0 for a row that is to be left out, or a number from {1 / _LARGEST:g} to {_LARGEST:g}"


def read_weights(table: Table, name: str) -> npt.NDArray[np.float32]:
    """Return the weights (n,) of a table's rows.

    Raises:
        DataError: for a missing column, a cell that is no number from 0 on, or no weight above 0.
    """
    parts = [row_weights(columns[name], name, first_row=row) for row, columns in column_batches(table, [name])]
    weights = np.concatenate([np.zeros(0, dtype=np.float32), *parts])
    if not weights.any():
        raise DataError(f"all weights in the column {name!r} are zero: nothing can be learned; {_CURE}")
    return weights


def row_weights(column: Any, name: str, *, first_row: int = 1) -> npt.NDArray[np.float32]:
    """Return the weights (n,) of a column; DataError naming the row of a cell that is none."""
    cells = as_array(column, column=name, first_row=first_row).to_pylist()
    return np.array([_weight(cell, name, row) for row, cell in enumerate(cells, start=first_row)], dtype=np.float32)


def _weight(cell: Any, name: str, row: int) -> float:
    is_single = not isinstance(cell, list | dict | bool)
    text = canonical(cell) if is_single else str(cell)
    if text is None:
        raise RowError(f"the weight (column {name!r}) of ", row, f" is missing: {_CURE}")
    number = number_of(text) if is_single else None
    if number is None or not (number == 0 or 1 / _LARGEST <= number <= _LARGEST):
        raise RowError(f"the weight (column {name!r}) of ", row, f" is {text[:60]!r}: {_CURE}")
    return number
