"""What makes attributes useless or figures too good: unique and constant attributes, leakage of the label."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from attribune.core.arrays import DoubleArray, IntArray
from attribune.data.checking.judgements import told_share
from attribune.data.checking.profiles import Codes, number_codes
from attribune.data.checking.whole_numbers import numbers_of
from attribune.findings import Finding

__all__ = ["attribute_finding", "leak_finding", "shared_rows", "sum_finding"]

_NEARLY_ALL = 0.95
_SURE = 0.99  # share of rows whose value tells the label
_MOST_COMMON = 0.9  # above this share of one label, any column seems to tell it
_LEAST_ROWS = 20
_MOST_ROWS = 10_000  # whose numbers are added up


def attribute_finding(name: str, codes: Codes, *, may_be_unique: bool = False) -> Finding | None:
    """Say why a column cannot help as an attribute; None for one that may.

    Args:
        may_be_unique: whether values of a single row help as well, such as numbers and values that are described.
    """
    rows, present = len(codes.codes), int(codes.counts.sum())
    if not present:
        return Finding("column-without-values", {"column": name})
    share = 1 - present / rows
    if share > _NEARLY_ALL:
        return Finding("column-mostly-missing", {"column": name, "share": share})
    if len(codes.values) == 1:
        return Finding("column-with-one-value", {"column": name, "value": codes.values[0].as_py()})
    once = int((codes.counts == 1).sum())
    if not may_be_unique and present >= _LEAST_ROWS and once >= _NEARLY_ALL * present:
        return Finding("column-of-unique-values", {"column": name, "once": once, "values": len(codes.values)})
    return None


def leak_finding(name: str, codes: Codes, label: Codes, *, guessed: str = "") -> Finding | None:
    """Say that a column tells the label; None where it does not.

    A column tells the label where rows that share a value share the label, far above what the labels' frequencies
    explain, or rows that share a label share the value; values of a single row say nothing.

    Args:
        codes: of the column, and `label` those of the labels.
        guessed: the column of the label, if this is a guess: of two that tell each other, the other may be the label.
    """
    both = (codes.codes >= 0) & (label.codes >= 0)
    values, labels = codes.codes[both], label.codes[both]
    if len(values) < _LEAST_ROWS or len(label.values) < 2:
        return None
    share = float((_same_text(codes, label)[values] == labels).mean())
    if share >= _SURE:
        return Finding("column-is-label", {"column": name, "share": share})
    everywhere = label.counts.max() / label.counts.sum()
    if everywhere < _MOST_COMMON and np.bincount(labels).max() >= _SURE * len(labels):
        shown = label.values[int(np.bincount(labels).argmax())].as_py()
        return Finding("column-only-with-label", {"column": name, "label": shown})
    told = _told_share(labels, values)
    if told is None or told < _SURE:
        copied = _told_share(values, labels)
        if copied is None or copied < _SURE:
            return None
        return Finding("label-tells-column", {"column": name, "share": copied})
    back = _told_share(values, labels) if guessed else None
    if back is not None and back >= _SURE:
        return Finding("columns-say-the-same", {"label": guessed, "column": name})
    return Finding("column-tells-label", {"column": name, "share": told, "is_guess": bool(guessed)})


def sum_finding(columns: Mapping[str, Codes], label: Codes) -> Finding | None:
    """Say that numbers add up to the label, as those of single raters to their mean; None where they do not.

    They do where a weighted sum of them leaves less than a hundredth of the label's variance.

    Args:
        columns: of numbers, by name, at least one; `label` those that are learned.
    """
    names, targets = list(columns), _row_numbers(number_codes(label))
    table = np.stack([_row_numbers(codes) for codes in columns.values()], axis=1)
    known = np.flatnonzero(np.isfinite(targets) & np.isfinite(table).all(1))
    if len(known) > _MOST_ROWS:
        known = np.random.default_rng(0).choice(known, _MOST_ROWS, replace=False)
    if len(known) < max(_LEAST_ROWS, 3 * len(names)) or np.ptp(targets[known]) == 0:
        return None
    sizes, wanted = (_standardized(one[known]) for one in (table, targets))

    def explained(chosen: list[int]) -> float:
        weights = np.linalg.lstsq(sizes[:, chosen], wanted, rcond=None)[0]
        return float(1 - ((wanted - sizes[:, chosen] @ weights) ** 2).mean())

    needed = list(range(len(names)))
    if explained(needed) < _SURE:
        return None
    for place in range(len(names)):
        others = [one for one in needed if one != place]
        if others and explained(others) >= _SURE:
            needed = others
    return Finding("columns-add-up-to-label", {"columns": [names[one] for one in needed], "share": explained(needed)})


def _row_numbers(codes: Codes) -> DoubleArray:
    """Return the number of each row (n,), NaN where it has none."""
    return np.append(numbers_of(codes), np.nan)[codes.codes]


def _standardized(numbers: DoubleArray) -> DoubleArray:
    """Return numbers of any size with mean 0 and variance 1, each column of its own; 0 where all are equal."""
    scaled = numbers / np.maximum(np.abs(numbers).max(0), np.finfo(np.float64).tiny)
    centered = scaled - scaled.mean(0)
    spread = centered.std(0)
    standardized: DoubleArray = centered / np.where(spread > 0, spread, 1.0)
    return standardized


def _told_share(labels: IntArray, values: IntArray) -> float | None:
    """Return the share of rows (n,) whose label is the usual one of their value, of values in several rows.

    None where these are too few rows, or nearly all have one label.
    """
    repeated = np.bincount(values)[values] > 1
    values, labels = values[repeated], labels[repeated]
    if len(values) < _LEAST_ROWS or np.bincount(labels).max() > _MOST_COMMON * len(labels):
        return None
    return told_share(labels, values)


def _same_text(codes: Codes, label: Codes) -> IntArray:
    """Return the number of the label with the same text for each value, -2 where there is none."""
    found = pc.index_in(codes.values, value_set=label.values).fill_null(-2)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def shared_rows(texts: IntArray, labels: IntArray, is_train: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Count the other rows whose text is in training, and those of them whose label is there with it.

    Args:
        texts: (rows,) numbers of the texts, and `labels` those of the labels.
        is_train: (rows,) whether a row is of the training part.
    """
    pairs = texts * (labels.max(initial=0) + 2) + labels + 1
    shared, same = (int(np.isin(codes[~is_train], codes[is_train]).sum()) for codes in (texts, pairs))
    return shared, same
