"""Which rows of a table can be used, and which values stand in them, read batch by batch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import datasets
import numpy as np
import pyarrow as pa

from attribune.core.arrays import BoolArray, FloatArray, IntArray
from attribune.core.wording import shortened
from attribune.data.texts import join_text
from attribune.errors import DataError, RowError
from attribune.findings import Finding
from attribune.schema.columns import MISSING, NO_NUMBER, Table, as_array, canonical, cell_text, column_batches
from attribune.tasks.labels import number_of

_LARGEST = 1e9  # weights are relative: their products and sums have to be numbers of single precision
_CURE = f"give 0 for a row that is to be left out, or a number from {1 / _LARGEST:g} to {_LARGEST:g}"


def read_weights(table: Table, name: str) -> FloatArray:
    """Return the weights (n,) of a table's rows.

    Raises:
        DataError: for a missing column, a cell that is no number from 0 on, or no weight above 0.
    """
    parts = [row_weights(columns[name], name, first_row=row) for row, columns in column_batches(table, [name])]
    weights = np.concatenate([np.zeros(0, dtype=np.float32), *parts])
    if not weights.any():
        raise DataError(f"all weights in the column {name!r} are zero: nothing can be learned; {_CURE}")
    return weights


def row_weights(column: Any, name: str, *, first_row: int = 1) -> FloatArray:
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
        raise RowError(f"the weight (column {name!r}) of ", row, f" is {shortened(text, 60)!r}: {_CURE}")
    return number


_EXAMPLES = 5  # of labels that are named
_NO_TEXT = (*MISSING, *NO_NUMBER, "n.a.", "not available", "no text", "k.a.")
_PLACEHOLDERS = frozenset(word.casefold() for word in _NO_TEXT)
_MARKS = re.compile(r"[-_.?*/\u2013\u2014\u2026]{1,4}")
_LONGEST_PLACEHOLDER = 30


def rows_with_text(
    table: Table,
    names: Sequence[str],
    *,
    words: bool = False,
    enough: Callable[[Iterable[bool]], bool] = any,
) -> BoolArray:
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

    return _rows_where(table, names, lambda cells: enough(map(has, cells)))


def _rows_where(table: Table, names: Sequence[str], holds: Callable[[Iterable[object]], bool]) -> BoolArray:
    """Return (n,) whether something holds of the cells of each row."""
    found = [
        holds(cells)
        for _, columns in column_batches(table, names)
        for cells in zip(*(columns[name].to_pylist() for name in names), strict=True)
    ]
    return np.array(found, dtype=bool)


def placeholder_texts(table: Table, names: Sequence[str]) -> Counter[str]:
    """Count the texts that stand for none, such as ``-``, ``n/a`` and ``?``.

    Args:
        names: the columns of the text; a row counts if all that it has there is such a text.
    """
    found: Counter[str] = Counter()
    for _, columns in column_batches(table, names):
        texts = join_text([columns[name].to_pylist() for name in names], separator=" ")
        found.update(text for text in texts if text and _is_placeholder(text))
    return found


def _is_placeholder(text: str) -> bool:
    if len(text) > _LONGEST_PLACEHOLDER:
        return False
    return text.casefold() in _PLACEHOLDERS or all(
        part.casefold() in _PLACEHOLDERS or _MARKS.fullmatch(part) for part in text.split()
    )


def placeholder_finding(found: Counter[str]) -> Finding:
    """Say how many texts stand for none."""
    examples = dict(found.most_common(_EXAMPLES))
    return Finding("placeholder-texts", {"texts": found.total(), "examples": examples, "more": len(found) > _EXAMPLES})


def rows_with_label(
    table: Table,
    names: Sequence[str],
    *,
    missing: Collection[str],
    enough: Callable[[Iterable[bool]], bool] = all,
    objects: bool = False,
) -> BoolArray:
    """Return (n,) whether `enough` of the label columns, ``all`` or ``any``, have values that do not mean missing.

    Args:
        objects: whether a label may be an object, such as answers with their places.
    """
    kinds = (list, dict) if objects else (list,)

    def has(value: object) -> bool:
        if isinstance(value, dict) and not objects:
            raise DataError(
                f"a label is the object {shortened(str(value), 60)}: set task.soft_labels=true if it has the share "
                "of each class, or name another column"
            )
        return isinstance(value, kinds) or (canonical(value) or "") not in unusable

    unusable = {*missing, ""}
    return _rows_where(table, names, lambda cells: enough(map(has, cells)))


def missing_label_words(table: Table, names: Sequence[str], rows: BoolArray, *, missing: Collection[str]) -> str:
    """List the words that stand for a missing label in some rows, with their numbers: ``'None' (25), 'NA' (15)``.

    Args:
        names: the label columns.
        rows: (n,) whether a row is left out for lack of a label.

    Returns:
        The list, with the number of empty cells at its end; nothing if all these cells are empty.
    """
    cells: Counter[str] = Counter()
    for first_row, columns in column_batches(table, names):
        chosen = np.flatnonzero(rows[first_row - 1 :][: len(columns[names[0]])])
        for name in names:
            values = columns[name].take(pa.array(chosen)).to_pylist()
            cells.update(canonical(value) or "" for value in values if not isinstance(value, list | dict))
    found = [(word, count) for word, count in cells.most_common() if word and word in missing]
    words = [f"{word!r} ({count:,})" for word, count in found]
    return ", ".join([*words, f"empty ({cells['']:,})"] if words and cells[""] else words)


def listed_labels(column: Sequence[object], bad: BoolArray, rows: IntArray) -> str:
    """List the most frequent labels that cannot be used, each with its number and its first row.

    Args:
        column: (n,) labels.
        bad: (n,) which of them are listed.
        rows: (n,) index of each in its file, from 0.
    """
    places: dict[str, list[int]] = {}
    for row in np.flatnonzero(bad).tolist():
        places.setdefault(cell_text(column[row]), []).append(int(rows[row]) + 1)
    examples = sorted(places.items(), key=lambda item: -len(item[1]))[:_EXAMPLES]
    listed = ", ".join(f"{text!r:.80} ({len(found):,}, first in row {found[0]:,})" for text, found in examples)
    return listed + (f", and {len(places) - _EXAMPLES:,} others" if len(places) > _EXAMPLES else "")


def shuffle_columns(table: datasets.Dataset, names: Sequence[str], *, seed: int) -> datasets.Dataset:
    """Shuffle some columns over the rows; their values in one row stay together.

    The relations among these columns remain, those to the rest of the row are lost.
    """
    order = np.random.default_rng(seed).permutation(len(table))
    others = [name for name in table.column_names if name not in names]
    shuffled = table.select_columns(list(names)).select(order)
    return datasets.concatenate_datasets([table.select_columns(others), shuffled], axis=1)
