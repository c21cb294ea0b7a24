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


def rows_with_text(
    table: Table,
    names: Sequence[str],
    *,
    words: bool = False,
    enough: Callable[[Iterable[bool]], bool] = any,
) -> Mask:
    """Return (n,) whether `enough` of the text columns, ``any`` or ``all``, have more than blanks.

    Args:
        words: whether a text may be a list of words.
    """
    for name in names:
        kind = table.data.schema.field(name).type if isinstance(table, datasets.Dataset) else pa.string()
        if pa.types.is_nested(kind) and not (words and pa.types.is_list(kind)):
            raise DataError(f"the text column {name!r} holds lists, not text: join them first, or name another column")

    def has(value: object) -> bool:
        return any(map(has, value)) if isinstance(value, list) else canonical(value) is not None

    has_text = [
        [enough(map(has, row)) for row in zip(*(columns[name].to_pylist() for name in names), strict=True)]
        for _, columns in column_batches(table, names)
    ]
    return np.concatenate([np.zeros(0, dtype=bool), *has_text])


def rows_with_label(
    table: Table,
    names: Sequence[str],
    *,
    missing: Collection[str],
    enough: Callable[[Iterable[bool]], bool] = all,
    objects: bool = False,
) -> Mask:
    """Return (n,) whether `enough` of the label columns, ``all`` or ``any``, have values that do not mean missing.

    Args:
        objects: whether a label may be an object, such as answers with their places.
    """
    kinds = (list, dict) if objects else (list,)

    def has(value: object) -> bool:
        if isinstance(value, dict) and not objects:
            raise DataError(
                f"a label is the object {str(value)[:60]}: set task.soft_labels=true if it has the share of each "
                "class, or name another column"
            )
        return isinstance(value, kinds) or (canonical(value) or "") not in unusable

    unusable = {*missing, ""}
    has_label = [
        enough(has(value) for value in row)
        for _, columns in column_batches(table, names)
        for row in zip(*(columns[name].to_pylist() for name in names), strict=True)
    ]
    return np.array(has_label, dtype=bool)


def shuffle_columns(table: datasets.Dataset, names: Sequence[str], *, seed: int) -> datasets.Dataset:
    """Shuffle some columns over the rows; their values in one row stay together.

    The relations among these columns remain, those to the rest of the row are lost.
    """
    order = np.random.default_rng(seed).permutation(len(table))
    others = [name for name in table.column_names if name not in names]
    shuffled = table.select_columns(list(names)).select(order)
    return datasets.concatenate_datasets([table.select_columns(others), shuffled], axis=1)
