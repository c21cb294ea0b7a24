"""Which rows of a table can be used, and which values stand in them, read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import datasets
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribune.errors import DataError
from attribune.schema.columns import Table, canonical, column_batches

__all__ = ["rows_with_label", "rows_with_text", "shuffle_columns"]

Mask = npt.NDArray[np.bool_]


def rows_with_text(table: Table, names: Sequence[str]) -> Mask:
    """Return (n,) whether any of the text columns has more than blanks."""
    for name in names:
        if isinstance(table, datasets.Dataset) and pa.types.is_nested(table.data.schema.field(name).type):
            raise DataError(f"the text column {name!r} holds lists, not text: join them first, or name another column")
    has_text = [
        np.any([[canonical(value) is not None for value in columns[name].to_pylist()] for name in names], axis=0)
        for _, columns in column_batches(table, names)
    ]
    return np.concatenate(has_text) if has_text else np.zeros(0, dtype=bool)


def rows_with_label(
    table: Table,
    names: Sequence[str],
    *,
    missing: Collection[str],
    enough: Callable[[Iterable[bool]], bool] = all,
) -> Mask:
    """Return (n,) whether the label columns have values that are not among the texts that mean missing.

    Args:
        enough: ``all`` or ``any`` of the columns.
    """

    def has(value: object) -> bool:
        return isinstance(value, list) or (canonical(value) or "") not in unusable

    unusable = {*missing, ""}
    has_label = [
        enough(has(value) for value in row)
        for _, columns in column_batches(table, names)
        for row in zip(*(columns[name].to_pylist() for name in names), strict=True)
    ]
    return np.array(has_label, dtype=bool)


def shuffle_columns(table: datasets.Dataset, names: Sequence[str], *, seed: int) -> datasets.Dataset:
    """Deal some columns out anew over the rows: in a random order, all of one row together.

    What the columns say by themselves and about each other stays; what they say about the rest of the row is gone.
    """
    order = np.random.default_rng(seed).permutation(len(table))
    kept = [name for name in table.column_names if name not in names]
    dealt = table.select_columns(list(names)).select(order)
    return datasets.concatenate_datasets([table.select_columns(kept), dealt], axis=1)
