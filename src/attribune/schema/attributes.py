"""Attributes: vocabularies are fitted to training rows, batch by batch, and encode one column into ids.

Values are compared as canonical text (`attribune.schema.columns.canonical`). Id 0 means missing, unknown or dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from attribune.core.arrays import BoolArray, DoubleArray, IntArray
from attribune.core.door import as_argument, as_attribute
from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.columns import (
    PATH,
    Cells,
    canonical,
    distinct_pairs,
    number_of,
    refuse_split_lists,
)
from attribune.schema.description_kinds import FittedField, ValueDescriptions
from attribune.schema.kinds import (
    Kind,
    Number,
    Numeric,
    VocabularyKind,
    hashed_ids,
    salt_check,
)
from attribune.schema.number_marks import has_thousands
from attribune.schema.reports import AttributeCounts, AttributeFit, level_notes, missing_words, unread_words
from attribune.schema.vocabulary import Vocabulary

Ids = TypeVar("Ids", bound=Any)  # an array or a tensor


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The columns of one attribute in `attribute_ids`, and how many ids it has.

    Args:
        name: the attribute.
        start: first column.
        count: number of columns.
        size: number of ids, including id 0 (missing, unknown, dropped).
        counts: (size,), training rows that have each id, where they are known.
        description: what is known of the values, if anything.
        is_nested: whether the values of a row are the levels of a hierarchy, the upper ones first.
    """

    name: str
    start: int
    count: int
    size: int
    counts: Any = field(default=None, compare=False, repr=False)
    description: ValueDescriptions | None = field(default=None, compare=False, repr=False)
    is_nested: bool = False

    @property
    def columns(self) -> slice:
        """The columns of `attribute_ids`."""
        return slice(self.start, self.start + self.count)

    @property
    def has_own_vectors(self) -> bool:
        """Whether a value has a vector that is not what its description says."""
        return self.description is None or self.description.own_vectors

    def of(self, attribute_ids: Ids) -> Ids:
        """Select the columns of this attribute: (B, all slots) → (B, count)."""
        selected: Ids = attribute_ids[:, self.columns]
        return selected


SEARCHABLE = 10_000  # above this many values, looking for the closest spelling takes too long


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedAttribute:
    """An attribute with the vocabulary of its training rows.

    Attributes:
        slots: their number, and `start` the first one, a column of `attribute_ids`, which a schema sets.
        values: value of each id from 1, most frequent first; for `Numeric` the bin as text; empty for `hash`.
        counts: (size,) int64, training rows that have each id; index 0 counts rows without a value and values left out.
        edges: for `Numeric`, the lower bounds of all bins but the first.
        check: for a salt from the environment, a value that recognises the right one.
        description: what a table says of the values, if there is one.
    """

    spec: Kind
    slots: int
    values: Vocabulary
    counts: IntArray
    start: int = 0
    edges: tuple[float, ...] = ()
    check: str | None = None
    description: ValueDescriptions | None = None

    @property
    def name(self) -> str:
        """Its name: that of the column, or of a part of it."""
        return self.spec.name

    @property
    def column(self) -> str:
        """The column of a table that is read."""
        return self.spec.column

    @property
    def size(self) -> int:
        """Number of ids, id 0 included."""
        return len(self.counts)

    @property
    def layout(self) -> Slots:
        """Its columns in `attribute_ids`, and its number of ids."""
        return Slots(
            name=self.name,
            start=self.start,
            count=self.slots,
            size=self.size,
            counts=self.counts,
            description=self.description,
            is_nested=self.spec.is_nested,
        )

    @property
    def columns(self) -> slice:
        """The columns of `attribute_ids`."""
        return self.layout.columns

    def encode(
        self, column: pa.Array, *, missing: frozenset[str], first_row: int = 1
    ) -> tuple[IntArray, AttributeCounts]:
        """Turn a column into ids.

        Returns:
            Ids of shape (rows, slots), known values first and then 0; and what was done.

        Raises:
            DataError: naming the row of a value that is not a number, not a list, or unseen with `unseen="error"`.
            ConfigError: when the salt is not in the environment, or is another one than at fit time.
        """
        cells = self.spec.read(column, missing=missing, first_row=first_row)
        ids = self._ids(cells, first_row)[cells.codes]
        if self.spec.separator is not None and not ids.all():
            self._refuse_lists(cells, self.spec.separator)
        clipped = self._beyond(cells, first_row)[cells.codes]
        known = ids > 0
        # Two values of a row can share one bucket.
        rows, distinct = distinct_pairs(cells.rows[known], ids[known])
        slot = np.arange(len(rows)) - np.searchsorted(rows, rows, side="left")
        fits = slot < self.slots
        encoded = np.zeros((cells.height, self.slots), dtype=np.int64)
        encoded[rows[fits], slot[fits]] = distinct[fits]
        unseen, dropped = int((~known).sum()), int((~fits).sum())
        return encoded, replace(_counts_of(cells), unseen=unseen, dropped=dropped, clipped=int(clipped.sum()))

    def ids_of_values(self, values: Sequence[str]) -> IntArray:
        """Return the ids (n, slots) of rows that have these known values: in a hierarchy with the levels above."""
        column = pa.array([self.spec.cell(value) for value in values])
        return self.encode(column, missing=frozenset())[0]

    def with_levels_below(self, values: Iterable[str]) -> list[str]:
        """Return values, and in a hierarchy all known ones below them, whose names hold theirs."""
        wanted = list(dict.fromkeys(values))
        if not self.spec.is_nested:
            return wanted
        starts = tuple(f"{value}{PATH}" for value in wanted)
        return list(dict.fromkeys([*wanted, *(value for value in self.values if value.startswith(starts))]))

    def unknown(self, column: pa.Array, *, missing: frozenset[str], first_row: int = 1) -> list[list[str]]:
        """Return the values of each row that are not in the vocabulary; hashed values and numbers always have an id."""
        cells = self.spec.read(column, missing=missing, first_row=first_row)
        if not self.spec.lists_values:
            return [[] for _ in range(cells.height)]
        return cells.by_row((self.values.ids(cells.texts) == 0)[cells.codes])

    def grown(self, other: FittedAttribute) -> FittedAttribute:
        """Return the attribute with the values of another fit as ids after its own; see `Schema.grown`."""
        if self.spec.is_numeric:
            return self
        slots = max(self.slots, other.slots)
        if not self.values or not other.values:
            if (self.size, self.check, self.spec.unseen) != (other.size, other.check, other.spec.unseen):
                raise ConfigError(f"attribute {self.name!r} is hashed in two ways: give both the same buckets and salt")
            return replace(self, slots=slots, counts=self.counts + other.counts)
        ids = self.values.ids(other.values[:])
        new = [value for value, known in zip(other.values, ids, strict=True) if not known]
        ids[ids == 0] = np.arange(self.size, self.size + len(new))
        counts = np.concatenate([self.counts, np.zeros(len(new), dtype=np.int64)])
        counts[0] += other.counts[0]
        counts[ids] += other.counts[1:]
        description = self.description
        if description is not None:
            description = description.take(np.r_[: self.size, np.zeros(len(new), dtype=np.int64)])
        return replace(
            self,
            slots=slots,
            values=Vocabulary([*self.values, *new]),
            counts=counts,
            description=description,
        )

    def _ids(self, cells: Cells, first_row: int) -> IntArray:
        if self.spec.is_numeric:
            numbers = numbers_of(cells, column=self.column, first_row=first_row)
            return np.searchsorted(np.asarray(self.edges), numbers, side="right").astype(np.int64) + 1
        if self.spec.unseen == "hash":
            return hashed_ids(self.spec, cells.texts, check=self.check)
        ids = self.values.ids(cells.texts)
        if self.spec.unseen == "error" and not ids.all():
            value, row = cells.first(ids == 0, first_row=first_row)
            hint = did_you_mean(value, self.values) if len(self.values) <= SEARCHABLE else ""
            raise RowError(
                f"attribute {self.name!r}, ",
                row,
                f": the value {value!r} was not seen in training{hint}: correct the row, or fit the schema with "
                "unseen='unknown'",
            )
        return ids

    def _refuse_lists(self, cells: Cells, separator: str) -> None:
        """Refuse cells that are spelled as lists, of which a separator makes values that no training row has."""
        if any(text.startswith("[") for text in cells.texts):
            parts = dict(zip(cells.texts, np.bincount(cells.codes, minlength=len(cells.texts)).tolist(), strict=True))
            cure = f"write them with {separator!r} between, as in training"
            refuse_split_lists(parts, what=f"attribute {self.name!r}: the cells", cure=cure)

    def _beyond(self, cells: Cells, first_row: int) -> BoolArray:
        """Return whether each distinct text (n,) is a continuous number beyond those of training."""
        if not self.spec.is_numeric or self.description is None:
            return np.zeros(len(cells.texts), dtype=bool)
        numbers = numbers_of(cells, column=self.column, first_row=first_row)
        (levels,) = self.description.fields
        lowest, highest = levels.mean + levels.scale * self.description.features[[1, -1], 0].astype(np.float64)
        margin = 1e-6 * max(abs(lowest), abs(highest))  # levels are of single precision
        return np.asarray((numbers < lowest - margin) | (numbers > highest + margin), dtype=bool)


def _counts_of(cells: Cells) -> AttributeCounts:
    return AttributeCounts(
        rows=cells.height,
        missing=cells.missing,
        trimmed=cells.trimmed,
        unread=sum(cells.unread.values()),
        example=next(iter(cells.unread), ""),
        below_empty=cells.below_empty,
    )


def counts_of_rows(counts: IntArray, ids: IntArray) -> IntArray:
    """Return how many training rows have the value of each row; of several values the rarest, 0 without a known one.

    Args:
        counts: (size,), training rows of each id.
        ids: (n, slots).
    """
    none = np.iinfo(np.int64).max
    rarest = np.where(ids > 0, counts[ids], none).min(axis=1, initial=none)
    return np.where(rarest == none, 0, rarest)


def numbers_of(cells: Cells, *, column: str, first_row: int) -> DoubleArray:
    """Read the distinct texts of a column as finite numbers, float64 of shape (len(texts),).

    Raises:
        DataError: naming row and value of the first text that is not a finite number.
    """
    numbers = np.array(list(map(number_of, cells.texts)), dtype=np.float64)  # NaN for None
    if (bad := np.isnan(numbers)).any():
        text, row = cells.first(bad, first_row=first_row)
        raise NoNumberError(column, row, text)
    return numbers


class NoNumberError(RowError):
    """A cell of a column of numbers that is none.

    Args:
        column: its name.
        row: number of the row, the first being 1.
        text: the cell.
    """

    def __init__(self, column: str, row: int, text: str) -> None:
        reading = f"read the file with {as_argument('data.decimal', ',')}"
        comma = f"write a decimal point, or {reading}; " * ("," in text)
        if has_thousands(text):
            or_decimal = "" if "." in text else f", or, if they are decimal commas, {reading}"
            comma = f"write thousands without commas{or_decimal}; "
        super().__init__(
            f"column {column!r}, ",
            row,
            f": {text!r} is not a finite number: {comma}correct it, add it to the missing values "
            f"({as_argument('data.missing')}), make a number of a date, such as its year, or read the "
            f"column as categories with {as_attribute('categorical', column)}",
        )
        self.column, self.text = column, text

    def of_one_value(self) -> ConfigError:
        """Return the error for a value that is given by hand, not in a table."""
        with_point = self.text.replace(",", "" if has_thousands(self.text) else ".")
        example = "12.5" if number_of(with_point) is None else with_point
        return ConfigError(
            f"{self.column}={self.text}: {self.column!r} is a number for the model: write it with a decimal point, "
            f"such as {example}, or leave it out if it is not known"
        )


LARGEST_NUMBER = 1e30  # of which mean and deviation are numbers of single precision


class AttributeFitter:
    """Collects one attribute's values over the batches of the training rows; those `described` are never left out."""

    def __init__(self, spec: Kind, *, missing: frozenset[str], described: Iterable[str] = ()) -> None:
        self._spec = spec
        self._described = tuple(described)
        self._missing = missing
        self._counts = AttributeCounts()
        self._words: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self._widest = 1
        self._values: Counter[str] = Counter()
        self._numbers: Counter[float] = Counter()

    def add(self, column: pa.Array, *, first_row: int) -> None:
        """Count the values of one batch; a DataError names the row of a value that does not fit the kind."""
        cells = self._spec.read(column, missing=self._missing, first_row=first_row)
        self._counts += _counts_of(cells)
        self._words.update(cells.words)
        self._unread.update(cells.unread)
        if not len(cells.codes):
            return
        self._widest = max(self._widest, int(np.bincount(cells.rows).max()))
        times = np.bincount(cells.codes, minlength=len(cells.texts)).tolist()
        if self._spec.is_numeric:
            numbers = numbers_of(cells, column=self._spec.column, first_row=first_row).tolist()
            for number, count in zip(numbers, times, strict=True):
                self._numbers[number] += count
        else:
            self._values.update(dict(zip(cells.texts, times, strict=True)))

    @property
    def has_values(self) -> bool:
        """Whether any row had a value."""
        return self._counts.missing < self._counts.rows

    def finish(self) -> tuple[FittedAttribute, AttributeFit]:
        """Number the values. A DataError if there is none."""
        if not self.has_values:
            words = missing_words(self._words) or unread_words(self._unread)
            raise DataError(
                f"attribute {self._spec.name!r} has no value in any of the {self._counts.rows} training rows"
                f"{words and f' ({words})'}: leave it out, or check the column and the list of missing values"
            )
        if isinstance(self._spec, Numeric):
            return self._binned(self._spec)
        if self._spec.separator is not None:
            cure = f"leave the separator out ({as_attribute('multi_label', self._spec.name)})"
            refuse_split_lists(self._values, what=f"attribute {self._spec.name!r}: the cells", cure=cure)
        if self._spec.unseen == "hash":
            return self._hashed(self._spec)
        return self._listed(self._spec)

    def _listed(self, spec: VocabularyKind) -> tuple[FittedAttribute, AttributeFit]:
        frequent = {value: times for value, times in self._values.items() if times >= spec.min_count}
        kept = dict(_by_frequency(frequent)[: spec.max_values])
        kept = dict(_by_frequency({value: self._values[value] for value in (*self._described, *kept)}))
        if not kept:
            raise DataError(
                f"attribute {spec.name!r}: none of its {len(self._values)} values is in {spec.min_count} training "
                "rows: lower min_count"
            )
        left_out = self._values.total() - sum(kept.values())
        rare = sum(times < spec.min_count and value not in kept for value, times in self._values.items())
        found = sum(times > 0 for times in kept.values())
        fit = self._report(
            found=len(self._values),
            kept=len(kept),
            rare=rare,
            beyond_cap=len(self._values) - found - rare,
            left_out_cells=left_out,
            notes=level_notes(spec.name, self._values) if spec.is_nested else (),
        )
        return self._fitted(tuple(kept), [self._counts.missing + left_out, *kept.values()]), fit

    def _hashed(self, spec: VocabularyKind) -> tuple[FittedAttribute, AttributeFit]:
        ids = hashed_ids(spec, list(self._values), check=None)
        counts = np.bincount(ids, weights=list(self._values.values()), minlength=spec.buckets + 1).astype(np.int64)
        counts[0] = self._counts.missing
        shared = int((np.bincount(ids)[ids] > 1).sum())
        fit = self._report(found=len(self._values), kept=int(np.count_nonzero(counts[1:])), shared=shared)
        return self._fitted((), counts.tolist(), check=salt_check(spec)), fit

    def _binned(self, spec: Numeric) -> tuple[FittedAttribute, AttributeFit]:
        numbers = np.array(sorted(self._numbers))
        times = np.array([self._numbers[number] for number in numbers.tolist()])
        if isinstance(spec, Number):
            edges, description = self._levels(spec, numbers, times)
            unit = "levels on their scale"
        else:
            edges, description, unit = quantile_edges(numbers, times, bins=spec.bins), None, "bins"
        bins = np.searchsorted(edges, numbers, side="right") + 1
        counts = np.bincount(bins, weights=times, minlength=len(edges) + 2).astype(np.int64)
        counts[0] = self._counts.missing
        fit = self._report(found=len(numbers), kept=len(edges) + 1, unit=unit)
        bounds = edges.tolist()
        fitted = self._fitted(bin_names(bounds), counts.tolist(), edges=tuple(bounds), description=description)
        return fitted, fit

    def _levels(self, spec: Number, numbers: DoubleArray, times: IntArray) -> tuple[DoubleArray, ValueDescriptions]:
        """Return the bounds between the levels of a continuous number, and the levels, standardised."""
        largest = np.abs(numbers).max()
        if largest > LARGEST_NUMBER:
            raise DataError(
                f"attribute {spec.name!r} has the number {largest:g}, and continuous ones may have {LARGEST_NUMBER:g}: "
                "correct it, or take the bins of a Numeric"
            )
        levels = number_levels(numbers, times, count=spec.bins)
        mean = np.average(numbers, weights=times)
        scale = np.sqrt(np.average(np.square(numbers - mean), weights=times)) or 1.0
        features = np.zeros((len(levels) + 1, 2), dtype=np.float32)
        features[1:, 0], features[1:, 1] = (levels - mean) / scale, 1
        level = Number(spec.name, bins=spec.bins)  # also of what is derived, as years of dates are
        known = FittedField(spec=level, mean=np.array([mean], np.float32), scale=np.array([scale], np.float32))
        return (levels[1:] + levels[:-1]) / 2, ValueDescriptions(fields=(known,), features=features, own_vectors=False)

    def _fitted(self, values: tuple[str, ...], counts: list[int], **more: Any) -> FittedAttribute:
        slots = min(self._widest, self._spec.max_per_row)
        array = np.array(counts, dtype=np.int64)
        return FittedAttribute(spec=self._spec, slots=slots, values=Vocabulary(values), counts=array, **more)

    def _report(self, **counts: Any) -> AttributeFit:
        return AttributeFit(
            rows=self._counts.rows,
            missing=self._counts.missing,
            trimmed=self._counts.trimmed,
            below_empty=self._counts.below_empty,
            words=self._words,
            unread=self._unread,
            **counts,
        )


def _by_frequency(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return texts with their numbers, the most frequent first."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def number_levels(numbers: DoubleArray, times: IntArray, *, count: int) -> DoubleArray:
    """Choose the levels to which continuous numbers are rounded, ascending.

    Half of them are the means of quantile bins, the others lie evenly between the smallest number and the largest.

    Args:
        numbers: (n,) distinct numbers, ascending.
        times: (n,) how often each occurs.
        count: number of levels, at most.
    """
    half = max(1, count // 2)
    bins = np.searchsorted(quantile_edges(numbers, times, bins=half), numbers, side="right")
    means = np.bincount(bins, weights=numbers * (times / np.bincount(bins, weights=times)[bins]))
    exact = numbers if len(numbers) <= half else means
    levels = np.unique(np.concatenate([exact, np.linspace(numbers[0], numbers[-1], max(0, count - len(exact)))]))
    apart = np.diff(levels) > 4 * np.spacing(np.abs(levels).max())  # so that there is a bound between them
    return np.asarray(levels[np.append(True, apart)], dtype=np.float64)


def quantile_edges(numbers: DoubleArray, times: IntArray, *, bins: int) -> DoubleArray:
    """Choose the lower bounds of all bins but the first; each is a training number, so that no bin is empty.

    Args:
        numbers: (n,) distinct numbers, ascending.
        times: (n,) how often each occurs.
    """
    below = np.cumsum(times)[:-1]  # rows below each possible edge, numbers[1:]
    if not len(below):
        return numbers[:0]
    targets = np.arange(1, bins) * times.sum() / bins
    right = np.searchsorted(below, targets).clip(max=len(below) - 1)
    left = (right - 1).clip(min=0)
    nearest = np.where(targets - below[left] <= np.abs(below[right] - targets), left, right)
    edges = np.unique(np.where(left == right, right, nearest))
    return np.asarray(numbers[1:][edges], dtype=np.float64)


def bin_names(edges: list[float]) -> tuple[str, ...]:
    """Write each bin as text, for reports."""
    if not edges:
        return ("any number",)
    shown = [str(canonical(edge)) for edge in edges]
    middle = [f"{low} to below {high}" for low, high in pairwise(shown)]
    return (f"below {shown[0]}", *middle, f"{shown[-1]} and above")
