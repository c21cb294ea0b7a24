"""Vocabularies from training rows: counts collected batch by batch, then cut, ordered and numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribune.errors import DataError
from attribune.schema.attributes import FittedAttribute, numbers_of, read_cells
from attribune.schema.columns import canonical
from attribune.schema.description_kinds import FittedField, ValueDescriptions
from attribune.schema.kinds import Categorical, Kind, MultiLabel, Number, Numeric, hashed_ids, salt_check
from attribune.schema.reports import AttributeFit, missing_words
from attribune.schema.vocabulary import Vocabulary

__all__ = ["LARGEST_NUMBER", "AttributeFitter", "bin_names", "number_levels", "quantile_edges"]


LARGEST_NUMBER = 1e30  # of which mean and deviation are numbers of single precision


class AttributeFitter:
    """Collects one attribute's values over the batches of the training rows; those `described` are never left out."""

    def __init__(self, spec: Kind, *, missing: frozenset[str], described: Iterable[str] = ()) -> None:
        self._spec = spec
        self._described = dict.fromkeys(described, 0)
        self._missing = missing
        self._rows = 0
        self._empty = 0
        self._trimmed = 0
        self._words: Counter[str] = Counter()
        self._widest = 1
        self._values: Counter[str] = Counter()
        self._numbers: Counter[float] = Counter()

    def add(self, column: pa.Array, *, first_row: int) -> None:
        """Count the values of one batch; a DataError names the row of a value that does not fit the kind."""
        cells = read_cells(self._spec, column, missing=self._missing, first_row=first_row)
        self._rows += cells.height
        self._empty += cells.missing
        self._trimmed += cells.trimmed
        self._words.update(cells.words)
        if not len(cells.codes):
            return
        self._widest = max(self._widest, int(np.bincount(cells.rows).max()))
        times = np.bincount(cells.codes, minlength=len(cells.texts)).tolist()
        if isinstance(self._spec, Numeric):
            numbers = numbers_of(cells, column=self._spec.name, first_row=first_row).tolist()
            for number, count in zip(numbers, times, strict=True):
                self._numbers[number] += count
        else:
            self._values.update(dict(zip(cells.texts, times, strict=True)))

    @property
    def has_values(self) -> bool:
        """Whether any row had a value."""
        return self._empty < self._rows

    def finish(self, *, start: int) -> tuple[FittedAttribute, AttributeFit]:
        """Number the values; `start` is the attribute's first slot. A DataError if there is none."""
        if not self.has_values:
            words = missing_words(self._words)
            raise DataError(
                f"attribute {self._spec.name!r} has no value in any of the {self._rows} training rows"
                f"{words and f' ({words})'}: leave it out, or check the column and the list of missing values"
            )
        if isinstance(self._spec, Numeric):
            return self._binned(self._spec, start)
        if self._spec.unseen == "hash":
            return self._hashed(self._spec, start)
        return self._listed(self._spec, start)

    def _listed(self, spec: Categorical | MultiLabel, start: int) -> tuple[FittedAttribute, AttributeFit]:
        frequent = [(value, times) for value, times in self._values.items() if times >= spec.min_count]
        ordered = sorted(frequent, key=lambda pair: (-pair[1], pair[0]))[: spec.max_values]
        if self._described:
            chosen = self._described | {value: self._values[value] for value in self._described} | dict(ordered)
            ordered = sorted(chosen.items(), key=lambda pair: (-pair[1], pair[0]))
        if not ordered:
            raise DataError(
                f"attribute {spec.name!r}: none of its {len(self._values)} values is in {spec.min_count} training "
                "rows: lower min_count"
            )
        left_out = self._values.total() - sum(times for _, times in ordered)
        counts = [self._empty + left_out, *(times for _, times in ordered)]
        kept = dict(ordered)
        rare = sum(times < spec.min_count and value not in kept for value, times in self._values.items())
        found = sum(times > 0 for times in kept.values())
        fit = self._report(
            found=len(self._values),
            kept=len(ordered),
            rare=rare,
            beyond_cap=len(self._values) - found - rare,
            left_out_cells=left_out,
        )
        return self._fitted(spec, start, tuple(value for value, _ in ordered), counts), fit

    def _hashed(self, spec: Categorical | MultiLabel, start: int) -> tuple[FittedAttribute, AttributeFit]:
        ids = hashed_ids(spec, list(self._values), check=None)
        counts = np.bincount(ids, weights=list(self._values.values()), minlength=spec.buckets + 1).astype(np.int64)
        counts[0] = self._empty
        shared = int((np.bincount(ids)[ids] > 1).sum())
        fit = self._report(found=len(self._values), kept=int(np.count_nonzero(counts[1:])), shared=shared)
        return self._fitted(spec, start, (), counts.tolist()), fit

    def _binned(self, spec: Numeric, start: int) -> tuple[FittedAttribute, AttributeFit]:
        numbers = np.array(sorted(self._numbers))
        times = np.array([self._numbers[number] for number in numbers.tolist()])
        edges, description = quantile_edges(numbers, times, bins=spec.bins), None
        if isinstance(spec, Number):
            edges, description = self._levels(spec, numbers, times)
        bins = np.searchsorted(edges, numbers, side="right") + 1
        counts = np.bincount(bins, weights=times, minlength=len(edges) + 2).astype(np.int64)
        counts[0] = self._empty
        unit = "levels on their scale" if isinstance(spec, Number) else "bins"
        fit = self._report(found=len(numbers), kept=len(edges) + 1, unit=unit)
        fitted = self._fitted(spec, start, bin_names(edges.tolist()), counts.tolist(), tuple(edges.tolist()))
        return replace(fitted, description=description), fit

    def _levels(
        self, spec: Number, numbers: npt.NDArray[np.float64], times: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], ValueDescriptions]:
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
        known = FittedField(spec=spec, mean=np.array([mean], np.float32), scale=np.array([scale], np.float32))
        return (levels[1:] + levels[:-1]) / 2, ValueDescriptions(fields=(known,), features=features, own_vectors=False)

    def _fitted(
        self, spec: Kind, start: int, values: tuple[str, ...], counts: list[int], edges: tuple[float, ...] = ()
    ) -> FittedAttribute:
        slots = min(self._widest, spec.max_per_row) if isinstance(spec, MultiLabel) else 1
        check = None if isinstance(spec, Numeric) else salt_check(spec)
        array = np.array(counts, dtype=np.int64)
        return FittedAttribute(
            spec=spec, start=start, slots=slots, values=Vocabulary(values), counts=array, edges=edges, check=check
        )

    def _report(self, **counts: Any) -> AttributeFit:
        return AttributeFit(rows=self._rows, missing=self._empty, trimmed=self._trimmed, words=self._words, **counts)


def number_levels(
    numbers: npt.NDArray[np.float64], times: npt.NDArray[np.int64], *, count: int
) -> npt.NDArray[np.float64]:
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


def quantile_edges(
    numbers: npt.NDArray[np.float64], times: npt.NDArray[np.int64], *, bins: int
) -> npt.NDArray[np.float64]:
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
