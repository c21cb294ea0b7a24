"""Labels that are distributions over classes, such as the shares of the answers of those who judged a text.

Shapes: n rows, C classes.
"""

from __future__ import annotations

import json
import math
import numbers
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.columns import canonical
from attribune.tasks.labels import Array, Column, number_of

__all__ = [
    "SOFT_METRICS",
    "encode_shares",
    "label_shares",
    "most_frequent",
    "named_as",
    "refuse_distributions",
    "tie_notes",
]

SOFT_METRICS = ("cross_entropy", "manhattan", "jensen_shannon")
"""What is computed of distributions unasked, the main one first."""
_TOLERANCE = 0.02  # published shares are rounded
_EXAMPLE = 'give an object of shares that sum to 1, such as {"yes": 0.75, "no": 0.25}'

Shares = Mapping[str, float]


def label_shares(column: Column, *, missing: Collection[str], first_row: int = 1) -> list[Shares | None]:
    """Return the share of each class in the cells, None for a missing one.

    A cell is an object of shares or its JSON text. Shares are scaled to sum to 1, and those that are null are left out:
    tables of objects have all keys in every row.

    Raises:
        DataError: naming the row of a cell that is anything else.
    """
    shares: list[Shares | None] = []
    for row, cell in enumerate(column, start=first_row):
        try:
            shares.append(_shares(cell, missing))
        except DataError as error:
            raise RowError("the label of ", row, f" {error}") from error
    return shares


def _shares(cell: Any, missing: Collection[str]) -> Shares | None:
    if cell is None or (isinstance(cell, str | float) and (canonical(cell) or "") in {*missing, ""}):
        return None
    pairs = list(cell.items()) if isinstance(cell, Mapping) else _pairs(cell)
    found = [(canonical(name) or "", share) for name, share in pairs if share is not None]
    if not found:
        raise DataError(f"is an empty distribution: {_EXAMPLE}, or empty the cell")
    names = [name for name, _ in found]
    if twice := [name for name in names if names.count(name) > 1 or not name]:
        what = f"names the class {twice[0]!r} twice" if twice[0] else "has a class without a name"
        raise DataError(f"{what}: {_EXAMPLE}")
    for name, share in found:
        is_number = isinstance(share, numbers.Real) and not isinstance(share, bool | np.bool_)
        if not is_number or not 0 <= share <= 1 + _TOLERANCE:
            raise DataError(f"gives the class {name!r} the share {str(share)[:40]}, not one from 0 to 1: {_EXAMPLE}")
    total = math.fsum(share for _, share in found)
    if abs(total - 1) > _TOLERANCE:
        raise DataError(f"has shares that sum to {total:.4g}, and not to 1: {_EXAMPLE}")
    return {name: share / total for name, share in found}


def _pairs(cell: Any) -> list[tuple[str, Any]]:
    """Return the keys and values of the JSON text of an object; a key may come twice."""
    try:
        pairs = json.loads(cell, object_pairs_hook=_Pairs) if isinstance(cell, str) else None
    except (ValueError, RecursionError):
        pairs = None
    if not isinstance(pairs, _Pairs):
        raise DataError(
            f"is {str(cell)[:60]!r}, not a distribution: {_EXAMPLE}, as `attribune data distributions` makes them of "
            "single judgements, or leave soft_labels out"
        )
    return pairs


def refuse_distributions(names: Sequence[str]) -> None:
    """Raise a ConfigError if the name of a class is a distribution, in a task without soft labels."""
    for name in names:
        if not name.startswith("{"):
            continue
        with suppress(DataError):
            _shares(name, ())
            raise ConfigError(f"the label {name[:60]!r} is a distribution: set task.soft_labels=true")


class _Pairs(list[tuple[str, Any]]):
    """The pairs of a JSON object."""


def encode_shares(
    shares: Sequence[Shares | None], classes: Sequence[str], *, first_row: int = 1
) -> tuple[Array, Array]:
    """Return shares as float32 (n, C), and a mask (n,), False for a missing label.

    Raises:
        DataError: naming the row of a class that is none of `classes` and has a share.
    """
    index = {name: number for number, name in enumerate(classes)}
    labels = np.zeros((len(shares), len(classes)), dtype=np.float32)
    for row, cell in enumerate(shares):
        for name, share in (cell or {}).items():
            if name in index:
                labels[row, index[name]] = share
            elif share:
                raise RowError(
                    "the label of ",
                    first_row + row,
                    f" gives the share {share:.4g} to {name!r}, which is not among the classes "
                    f"({', '.join(map(repr, classes))}): name all of them with task.classes",
                )
    return labels, np.array([cell is not None for cell in shares], dtype=bool)


def named_as(shares: Sequence[Shares | None], classes: Sequence[str]) -> list[Shares | None]:
    """Return shares whose keys are written as the classes that are the same numbers."""
    names = {number_of(name): name for name in classes}
    named: list[Shares | None] = []
    for cell in shares:
        found: Counter[str] = Counter()
        for name, share in (cell or {}).items():
            found[names.get(number_of(name), name)] += share  # type: ignore[assignment]  # a counter of shares
        named.append(None if cell is None else found)
    return named


def most_frequent(shares: Array, scores: Array) -> Array:
    """Return the class ids (n,) of the largest shares (n, C); of a tie, the one whose score (n, C) is highest.

    So each of the most frequent answers counts as right.
    """
    is_top = shares >= shares.max(axis=1, keepdims=True)
    return np.asarray(np.where(is_top, scores, -np.inf).argmax(axis=1))


def tie_notes(shares: Array) -> list[str]:
    """Say how many distributions (n, C) have no single most frequent class."""
    ties = int(((shares >= shares.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
    if not ties:
        return []
    return [f"{ties:,} of {len(shares):,} labels have several most frequent classes, each of which counts as right"]
