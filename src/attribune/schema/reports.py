"""Reports of fitting and encoding: counts for each attribute, and lines that describe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from attribune.core.arrays import BoolArray
from attribune.core.wording import counted
from attribune.findings import rows_without_text
from attribune.schema.columns import PATH

FIRST_ROWS = 5
"""Rows whose numbers are named."""
_SAMPLE = 3  # cells that are shown
_UNREAD = "cells that cannot be read"


def count_lines(counts: object, words: Mapping[str, str]) -> list[str]:
    """Write the counts of a record that are not zero, each as ``words: count``."""
    return [f"{text}: {count:,}" for name, text in words.items() if (count := getattr(counts, name))]


def missing_words(words: Mapping[str, int]) -> str:
    """List the cells that were read as missing for what stood there; nothing without any."""
    listed = ", ".join(f"{word!r} ({count:,})" for word, count in sorted(words.items(), key=lambda pair: -pair[1]))
    return f"cells that mean no value (data.missing): {listed}" if words else ""


def unread_words(words: Mapping[str, int]) -> str:
    """List the first cells that are no value for the kind of the attribute; nothing without any."""
    first = list(words.items())[:_SAMPLE]
    listed = ", ".join(f"{word!r:.40} ({count:,})" for word, count in first)
    more = f", and {len(words) - _SAMPLE:,} other texts" if len(words) > _SAMPLE else ""
    return f"{_UNREAD} count as missing: {listed}{more}" if words else ""


@dataclass(frozen=True, kw_only=True)
class AttributeCounts:
    """What encoding did to one attribute.

    Attributes:
        missing: rows without a value.
        unseen: cells whose value is outside the vocabulary.
        trimmed: cells that lost spaces around the value.
        dropped: known values left out because a row has more of them than slots.
        unread: cells, counted as missing, that are no value for the kind of the attribute, such as no date.
        example: the first of them.
        clipped: cells with a continuous number beyond those of training, read as the smallest or largest of these.
        below_empty: in a hierarchy, rows with a value below an empty level, which is not read.
    """

    rows: int = 0
    missing: int = 0
    unseen: int = 0
    trimmed: int = 0
    dropped: int = 0
    unread: int = 0
    example: str = ""
    clipped: int = 0
    below_empty: int = 0

    def __add__(self, other: AttributeCounts) -> AttributeCounts:
        sums = {name: found + getattr(other, name) for name, found in asdict(self).items()}
        return AttributeCounts(**{**sums, "example": self.example or other.example})

    def phrases(self) -> list[str]:
        """Describe what is not zero."""
        words = {
            "missing": "rows without a value",
            "unseen": "values not in the vocabulary",
            "trimmed": "values trimmed of spaces",
            "dropped": "values dropped for lack of slots",
            "unread": f"{_UNREAD}, such as {self.example!r:.40}, which count as missing",
            "clipped": "numbers beyond those of training, read as the nearest of these",
            "below_empty": "rows with a value below an empty level, which is not read",
        }
        return count_lines(self, words)


def level_notes(name: str, paths: Iterable[str]) -> list[str]:
    """Say how many values each level of a hierarchy has, and which names stand under several values."""
    levels: Counter[int] = Counter()
    parents: dict[tuple[int, str], list[str]] = {}
    for path in paths:
        parent, _, own = path.rpartition(PATH)
        depth = path.count(PATH)
        levels[depth] += 1
        parents.setdefault((depth, own), []).append(parent)
    listed = ", ".join(f"{levels[depth]:,}" for depth in sorted(levels))
    notes = [f"levels of {name!r}: {listed} values from the upper to the lower"]
    shared = {own: above for (_, own), above in parents.items() if len(above) > 1}
    if shared:
        own, above = max(shared.items(), key=lambda pair: len(pair[1]))
        shown = " and ".join(repr(one) for one in sorted(above)[:2])
        count = counted(len(shared), "name stands", "names stand")
        notes.append(
            f"levels of {name!r}: {count} under several values of the level above, such as {own!r} under {shown}: "
            "these are different values"
        )
    return notes


@dataclass(frozen=True, kw_only=True)
class AttributeFit:
    """What fitting found in one attribute's training rows, and what it left out.

    Attributes:
        missing: rows without a value.
        trimmed: cells that lost spaces around the value.
        below_empty: in a hierarchy, rows with a value below an empty level, which is not read.
        found: distinct values (`Numeric`: distinct numbers).
        kept: values with an id of their own (`Numeric`: bins; `Number`: levels; `hash`: buckets in use).
        unit: what `kept` counts: ids, bins or levels.
        rare: values left out because fewer than `min_count` rows have them.
        beyond_cap: values left out because there are more than `max_values`.
        left_out_cells: cells whose value was left out.
        shared: with `hash`, values that share their bucket with another; of n values in b buckets a share of
            1 - (1 - 1/b)^(n - 1) is to be expected.
        words: cells that were read as missing for what stood there, by their text.
        unread: cells, counted as missing, that are no value for the kind of the attribute, by their text.
        notes: on the descriptions of values, and on the levels of a hierarchy.
    """

    rows: int
    missing: int
    trimmed: int
    found: int
    kept: int
    rare: int = 0
    beyond_cap: int = 0
    left_out_cells: int = 0
    shared: int = 0
    below_empty: int = 0
    words: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    unit: str = "ids"

    def phrases(self) -> list[str]:
        """Describe what was kept and left out."""
        words = {
            "rare": "values below min_count left out",
            "beyond_cap": "values beyond max_values left out",
            "left_out_cells": "cells with a value left out",
            "shared": "values that share a bucket with another",
            "missing": "rows without a value",
            "trimmed": "values trimmed of spaces",
            "below_empty": "rows with a value below an empty level, which is not read",
        }
        what = "values" if self.unit == "ids" else "numbers"
        lines = [f"{what} found: {self.found:,}; {self.unit}: {self.kept:,}", *count_lines(self, words)]
        return [*lines, *filter(None, (missing_words(self.words), unread_words(self.unread)))]


@dataclass(frozen=True)
class EncodingReport:
    """What encoding did to each attribute; reports of several batches add up with `+`.

    Attributes:
        no_text: the number of rows without a text, and `first_without` the numbers of the first ones.
    """

    attributes: Mapping[str, AttributeCounts]
    no_text: int = 0
    first_without: tuple[int, ...] = ()

    def __add__(self, other: EncodingReport) -> EncodingReport:
        empty = AttributeCounts()
        names = dict.fromkeys([*self.attributes, *other.attributes])
        return EncodingReport(
            {name: self.attributes.get(name, empty) + other.attributes.get(name, empty) for name in names},
            no_text=self.no_text + other.no_text,
            first_without=(self.first_without + other.first_without)[:FIRST_ROWS],
        )

    def without(self, names: Collection[str]) -> EncodingReport:
        """Return the report on the other attributes."""
        return replace(self, attributes={name: one for name, one in self.attributes.items() if name not in names})

    def with_empty(self, empty: BoolArray, *, first_row: int) -> EncodingReport:
        """Return the report with the rows that have no text, (rows,)."""
        first = np.flatnonzero(empty)[:FIRST_ROWS] + first_row
        return replace(self, no_text=int(empty.sum()), first_without=tuple(first.tolist()))

    @property
    def rows_without_text(self) -> str:
        """The rows without a text in words, such as ``2 rows have no text (rows 3 and 8)``; empty if all have one."""
        return rows_without_text(self.no_text, self.first_without[:FIRST_ROWS])

    def lines(self) -> list[str]:
        """Describe in one line per attribute what is not zero."""
        return _lines(self.attributes)


@dataclass(frozen=True)
class FitReport:
    """What fitting found in each attribute, and what it left out."""

    attributes: Mapping[str, AttributeFit]

    def lines(self) -> list[str]:
        """Describe what was kept and left out in one line per attribute, and what describes its values."""
        return [*_lines(self.attributes), *(note for fit in self.attributes.values() for note in fit.notes)]


def _lines(attributes: Mapping[str, AttributeCounts] | Mapping[str, AttributeFit]) -> list[str]:
    """Describe each attribute; the parts of a date have the same cells that cannot be read, which are said once."""
    lines, told = [], set[tuple[str, str]]()
    for name, record in attributes.items():
        column = name.rpartition(".")[0] or name
        phrases = [one for one in record.phrases() if not one.startswith(_UNREAD) or (column, one) not in told]
        told.update((column, one) for one in phrases)
        if phrases:
            lines.append(f"attribute {name!r} in {counted(record.rows, 'row')}: {'; '.join(phrases)}")
    return lines
