"""Splits: training, validation and test rows of one table, with equal texts never on two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import datasets
import numpy as np

from attribune.core.arguments import checked_arguments
from attribune.core.arrays import Array, IntArray
from attribune.core.wording import counted
from attribune.data.id_lists import numbered
from attribune.data.texts import text_digests
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.columns import canonical, column_batches
from attribune.schema.reports import count_lines
from attribune.schema.times import check_date_format, read_times

_TRAIN, _VALIDATION, _TEST, _OUT = range(4)
_FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True, kw_only=True)
class SplitReport:
    """How many rows went where.

    Attributes:
        left_out: rows left out because an earlier part has their text (only when split by group or time).
        apart: rows left out because their text and their group are in different parts (only when split by both).
        shared: rows of validation and test whose text is also in training, where texts may be shared.
        repeated: rows whose text an earlier row has; split at random they stay in that row's part.
        without_group: rows without a group, each one taken as a group of its own.
    """

    train: int
    validation: int
    test: int
    left_out: int = 0
    apart: int = 0
    shared: int = 0
    repeated: int = 0
    without_group: int = 0

    def lines(self) -> list[str]:
        """Say it in short lines."""
        words = {
            "repeated": "rows that repeat a text",
            "left_out": "rows left out, their text being in an earlier part",
            "apart": "rows left out, their text and their group being in different parts",
            "shared": "rows of validation and test whose text is in training, too",
            "without_group": "rows without a group, each taken as its own",
        }
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        sizes = ", ".join(f"{rows:,} {part}" for part, rows in parts.items() if rows)
        return [f"rows: {sizes}", *count_lines(self, words)]


@dataclass(frozen=True, kw_only=True)
class Splits:
    """The three parts, with rows in the order of the table, and the counts.

    Attributes:
        rows: the row indices of each part in the table, from 0.
    """

    train: datasets.Dataset
    validation: datasets.Dataset
    test: datasets.Dataset
    rows: tuple[IntArray, IntArray, IntArray]
    report: SplitReport


@checked_arguments
def split_table(
    table: datasets.Dataset,
    *,
    text: Sequence[str],
    seed: int = 0,
    fractions: tuple[float, float, float] = _FRACTIONS,
    by: Literal["random", "group", "time", "both"] = "random",
    column: str | None = None,
    date_format: str | None = None,
    shared_texts: bool = False,
) -> Splits:
    """Split a table into training, validation and test rows.

    Rows with the same text (trimmed, columns joined) never enter two parts, unless `shared_texts`. In a random split,
    they stay together. In a split by group or time, a text may fall into several parts: rows outside the earliest part
    are left out and counted. Groups are not divided; one too large for the remaining room in test and validation goes
    to train. Rows with the same time stay together.

    If several people judge each text, ``random`` makes parts of new texts, ``group`` with `shared_texts` parts of
    new judges, and ``both`` parts of new texts by new judges.

    Args:
        fractions: shares of train, validation and test; that of test may be 0.
        by: `random`; `group`: all rows with one value of `column` in one part; `time`: earliest in train, latest in
            test; `both`: groups and texts are split, each by the fractions, and rows whose text and group are in
            different parts are left out, so that a share of 0.1 of test keeps a hundredth of the rows for it.
        column: the group, or the time as a number or a date; None for ``random``.
        date_format: ``iso``, ``day-first``, ``month-first``, or a ``strptime`` format; None detects it.
        shared_texts: whether a text may be in several parts, when split by group.

    Raises:
        DataError: for too few rows, groups or points in time, or a row whose time cannot be read.
        ConfigError: for fractions that do not add up to 1, a `column` that `by` needs or does not take, or dates that
            can be read in two ways.
    """
    _check_settings(fractions, by, column, shared_texts=shared_texts, seed=seed)
    if date_format is not None:
        check_date_format(date_format)
    texts = _text_groups(table, text)
    without_group = apart = shared = 0
    if by == "time":
        times = read_times(_cells(table, str(column)), column=str(column), date_format=date_format)
        part = _by_time(times, fractions)
    elif by == "random":
        part = _by_group(texts, fractions, seed=seed)
    else:
        groups, without_group = _groups(table, str(column))
        part = _by_group(groups, fractions, seed=seed, column=column)
    if by == "both":
        part = np.where(part == _by_group(texts, fractions, seed=(seed, 1)), part, _OUT)
        apart = int((part == _OUT).sum())
    if shared_texts:
        shared = int(np.isin(texts[part != _TRAIN], texts[part == _TRAIN]).sum())
    else:
        part = _in_first_part(part, texts)
    rows = tuple(np.flatnonzero(part == number) for number in (_TRAIN, _VALIDATION, _TEST))
    _refuse_empty(rows, fractions, by=by, apart=apart)
    report = SplitReport(
        train=len(rows[0]),
        validation=len(rows[1]),
        test=len(rows[2]),
        left_out=int((part == _OUT).sum()) - apart,
        apart=apart,
        shared=shared,
        repeated=len(texts) - int(texts.max(initial=-1)) - 1,
        without_group=without_group,
    )
    train, validation, test = (table.select(chosen) for chosen in rows)
    return Splits(train=train, validation=validation, test=test, rows=(rows[0], rows[1], rows[2]), report=report)


def _in_first_part(part: IntArray, texts: IntArray) -> IntArray:
    """Leave out the rows whose text is in an earlier part."""
    first_part = np.full(int(texts.max(initial=-1)) + 1, _OUT)
    np.minimum.at(first_part, texts, part)
    return np.where(part == first_part[texts], part, _OUT)


def _refuse_empty(rows: Sequence[IntArray], fractions: Sequence[float], *, by: str, apart: int) -> None:
    """Refuse a part that should have rows and has none."""
    for name, chosen, share in zip(("train", "validation", "test"), rows, fractions, strict=True):
        if not share or len(chosen):
            continue
        reason = "have their text and their group in different parts" if apart else "repeat a text of an earlier part"
        cures = {"both": "raise the fractions or ", "group": "set data.split.shared_texts or "}
        raise DataError(f"all rows of {name} {reason}: {cures.get(by, '')}give the parts as files")


def _check_settings(fractions: Sequence[float], by: str, column: str | None, *, shared_texts: bool, seed: int) -> None:
    if seed < 0:
        raise ConfigError(f"seed is {seed}: give a number from 0 on")
    if len(fractions) != 3 or min(fractions[:2]) <= 0 or fractions[2] < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise ConfigError(
            f"fractions={tuple(fractions)} must be three positive numbers that add up to 1; the last, of test rows, "
            "may be 0"
        )
    if by not in ("random", "group", "time", "both"):
        raise ConfigError(f"by={by!r} must be 'random', 'group', 'time' or 'both'")
    if shared_texts and by != "group":
        raise ConfigError(f"a split by {by!r} with shared_texts: split by 'group', or leave shared_texts out")
    if (by == "random") != (column is None):
        cure = "leave column out" if column else "name the column"
        raise ConfigError(f"a split by {by!r} with column={column!r}: {cure}")


def _check_enough(row_count: int, units: int, different: str, fractions: Sequence[float], cure: str) -> None:
    if units < (3 if fractions[2] else 2):
        parts = "three" if fractions[2] else "two"
        raise DataError(
            f"{counted(row_count, 'row')} with {different} cannot make {parts} parts: {cure}, or "
            "give the parts as files"
        )


def _different(number: int, column: str | None) -> str:
    """Return a number of texts, or of values of a column."""
    if column is None:
        return counted(number, "different text")
    return counted(number, f"different value of {column!r}", f"different values of {column!r}")


def parts_at_random(groups: IntArray) -> IntArray:
    """Return the part of each row, 0 for train, 1 for validation and 2 for test, as `split_table` does by default.

    Args:
        groups: (rows,) the numbers of the texts, in the order of their first rows.

    Raises:
        DataError: for too few texts.
    """
    return _by_group(groups, _FRACTIONS, seed=0)


def fold_numbers(
    table: datasets.Dataset, folds: int, *, text: Sequence[str], seed: int = 0, column: str | None = None
) -> IntArray:
    """Return the fold (rows,) of each row, from 0: rows with the same text, or value of a column, are in one.

    The folds have about the same number of rows.

    Args:
        folds: their number.
        column: the group whose rows stay together; None for texts.

    Raises:
        DataError: for fewer texts or groups than folds.
    """
    groups = _text_groups(table, text) if column is None else _groups(table, column)[0]
    sizes = np.bincount(groups)
    if len(sizes) < folds:
        raise DataError(
            f"{counted(len(table), 'row')} with {_different(len(sizes), column)} cannot make {folds} folds: give fewer "
            "folds, or more rows"
        )
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold, rows = np.zeros(len(sizes), dtype=np.int64), np.zeros(folds, dtype=np.int64)
    for group in order.tolist():
        fold[group] = np.argmin(rows)
        rows[fold[group]] += sizes[group]
    return fold[groups]


def _by_group(
    groups: IntArray, fractions: Sequence[float], *, seed: int | tuple[int, int], column: str | None = None
) -> IntArray:
    """Fill test, then validation, with groups in random order; what does not fit trains. Returns the part per row."""
    sizes = np.bincount(groups)
    _check_enough(len(groups), len(sizes), _different(len(sizes), column), fractions, "give more rows")
    room = {_TEST: round(fractions[2] * len(groups)), _VALIDATION: round(fractions[1] * len(groups))}
    room = {part: max(1, rows) for part, rows in room.items() if fractions[part]}
    part = np.full(len(sizes), _TRAIN)
    order = np.random.default_rng(seed).permutation(len(sizes))
    for group in order.tolist():
        for candidate, left in room.items():
            if sizes[group] <= left:
                part[group] = candidate
                room[candidate] = left - int(sizes[group])
                break
        if not any(room.values()):
            break
    for needed in (*room, _TRAIN):
        if not (part == needed).any():  # every group was too large for the room, or all fitted into it
            largest = np.argmax(np.bincount(part, minlength=3))
            candidates = order[part[order] == largest]
            part[candidates[np.argmin(sizes[candidates])]] = needed
    return part[groups]


def _by_time(times: Array, fractions: Sequence[float]) -> IntArray:
    """Cut between points in time, as near to the fractions as they allow. Returns the part per row."""
    _, moment, sizes = np.unique(times, return_inverse=True, return_counts=True)
    different = counted(len(sizes), "different point in time", "different points in time")
    _check_enough(len(times), len(sizes), different, fractions, "split at random")
    before = np.concatenate([[0], np.cumsum(sizes)])
    wanted = np.array([fractions[0], fractions[0] + fractions[1]]) * len(times)
    first = int(np.argmin(np.abs(before[1 : -2 if fractions[2] else -1] - wanted[0]))) + 1
    part = (moment >= first).astype(np.int64)
    if not fractions[2]:
        return part
    second = int(np.argmin(np.abs(before[first + 1 : -1] - wanted[1]))) + first + 1
    return part + (moment >= second)


def _text_groups(table: datasets.Dataset, text: Sequence[str]) -> IntArray:
    """Number the texts; rows without text have nothing in common."""
    digests = text_digests(table, text)
    return numbered((row if digest is None else digest for row, digest in enumerate(digests)), count=len(digests))


def _groups(table: datasets.Dataset, column: str) -> tuple[IntArray, int]:
    """Number the groups, and count the rows without one; each of those is a group of its own."""
    names = _cells(table, column)
    groups = numbered((row if name is None else name for row, name in enumerate(names)), count=len(names))
    return groups, names.count(None)


def _cells(table: datasets.Dataset, column: str) -> list[str | None]:
    texts: list[str | None] = []
    for first_row, columns in column_batches(table, [column]):
        for row, value in enumerate(columns[column].to_pylist(), start=first_row):
            try:
                texts.append(canonical(value))
            except DataError as error:
                raise RowError(f"column {column!r}, ", row, f": {error}") from error
    return texts
