"""Attribute kinds, and a fitted attribute: its vocabulary and the encoding of one column into ids.

Values are compared as canonical text (`attribune.schema.columns.canonical`). Id 0 means missing, unknown or dropped.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.cells import Cells, list_cells, single_cells
from attribune.schema.vocabulary import Vocabulary

__all__ = [
    "KINDS",
    "SEARCHABLE",
    "AttributeCounts",
    "Categorical",
    "FittedAttribute",
    "Kind",
    "MultiLabel",
    "Numeric",
    "counts_of_rows",
    "hashed_ids",
    "numbers_of",
    "read_cells",
    "salt_check",
]

IntArray: TypeAlias = npt.NDArray[np.int64]
_ENVIRONMENT = "env:"
SEARCHABLE = 10_000  # above this many values, looking for the closest spelling takes too long


@dataclass(frozen=True)
class _Vocabulary:
    """Settings shared by the kinds with a vocabulary."""

    name: str
    _: KW_ONLY
    min_count: int = 1
    max_values: int | None = None
    unseen: Literal["unknown", "error", "hash"] = "unknown"
    buckets: int = 4096
    salt: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        _at_least_one(self.name, "min_count", self.min_count)
        _at_least_one(self.name, "buckets", self.buckets)
        if self.max_values is not None:
            _at_least_one(self.name, "max_values", self.max_values)
        if self.unseen not in ("unknown", "error", "hash"):
            raise ConfigError(f"attribute {self.name!r}: unseen={self.unseen!r} must be 'unknown', 'error' or 'hash'")
        if self.unseen != "unknown" and (self.min_count > 1 or self.max_values is not None):
            why = "lists no values" if self.unseen == "hash" else "refuses every value outside the vocabulary"
            raise ConfigError(
                f"attribute {self.name!r}: unseen={self.unseen!r} {why}, so min_count and max_values cannot leave "
                "values out: drop them, or use unseen='unknown'"
            )
        if self.salt is not None and self.unseen != "hash":
            raise ConfigError(f"attribute {self.name!r}: a salt needs unseen='hash' (unseen is {self.unseen!r})")
        if self.salt in ("", _ENVIRONMENT):
            raise ConfigError(f"attribute {self.name!r}: the salt {self.salt!r} is empty: give a text, or None")


@dataclass(frozen=True)
class Categorical(_Vocabulary):
    """One value per row, such as a user, a product or a publication.

    Args:
        name: the column.
        min_count: values seen in fewer training rows than this share id 0 with the unknown.
        max_values: keep at most this many values, the most frequent ones.
        unseen: what a value outside the vocabulary becomes: `unknown` is id 0; `error` stops, naming value and row;
            `hash` lists no values at all: every value, in training too, goes to one of `buckets` ids.
        buckets: number of ids of `hash`.
        salt: secret of `hash`. It is stored with the schema, and whoever has it can test a list of names against the
            bucket counts; `"env:NAME"` reads it from the environment variable NAME instead, at fit and at encode
            time, and stores only that name and a check value which recognises a wrong salt.

    Raises:
        ConfigError: for settings out of range, or that do not fit together.
    """

    kind: ClassVar[str] = "categorical"


@dataclass(frozen=True)
class MultiLabel(_Vocabulary):
    """Several values per row, such as tags or authors: a list column, or text.

    Args:
        name: the column.
        min_count: see `Categorical`; the other shared settings too.
        max_values: see `Categorical`.
        unseen: see `Categorical`.
        buckets: see `Categorical`.
        salt: see `Categorical`.
        separator: splits text (`"a|b"`). Without it, text must be a list in JSON's or Python's way (`"['a', 'b']"`).
            A real list column needs none.
        max_per_row: at most this many values of a row are kept, the first ones; the others are dropped and counted.

    Raises:
        ConfigError: for settings out of range, or that do not fit together.
    """

    kind: ClassVar[str] = "multi_label"
    _: KW_ONLY
    separator: str | None = None
    max_per_row: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(self.name, "max_per_row", self.max_per_row)
        if self.separator == "":
            raise ConfigError(f"attribute {self.name!r}: the separator is empty: give the text between two values")


@dataclass(frozen=True)
class Numeric:
    """A number per row, cut into quantile bins of the training rows; a missing number is id 0.

    Args:
        name: the column.
        bins: number of bins; fewer come out where many rows share one number.

    Raises:
        ConfigError: for fewer than one bin.
    """

    kind: ClassVar[str] = "numeric"
    name: str
    _: KW_ONLY
    bins: int = 10

    def __post_init__(self) -> None:
        _check_name(self.name)
        _at_least_one(self.name, "bins", self.bins)


Kind: TypeAlias = Categorical | MultiLabel | Numeric
KINDS: dict[str, type[Kind]] = {kind.kind: kind for kind in (Categorical, MultiLabel, Numeric)}


@dataclass(frozen=True, kw_only=True)
class AttributeCounts:
    """What encoding did to one attribute.

    Attributes:
        rows: rows encoded.
        missing: rows without a value.
        unseen: cells whose value is outside the vocabulary.
        trimmed: cells that lost spaces around the value.
        dropped: known values left out because a row has more of them than slots.
    """

    rows: int = 0
    missing: int = 0
    unseen: int = 0
    trimmed: int = 0
    dropped: int = 0

    def __add__(self, other: AttributeCounts) -> AttributeCounts:
        return AttributeCounts(
            rows=self.rows + other.rows,
            missing=self.missing + other.missing,
            unseen=self.unseen + other.unseen,
            trimmed=self.trimmed + other.trimmed,
            dropped=self.dropped + other.dropped,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedAttribute:
    """An attribute with the vocabulary of its training rows.

    Attributes:
        spec: the kind and its settings.
        start: first slot, a column of `attribute_ids`.
        slots: number of slots.
        values: value of each id from 1, most frequent first; for `Numeric` the bin as text; empty for `hash`.
        counts: (size,) int64, training rows that have each id; index 0 counts rows without a value and values left out.
        edges: for `Numeric`, the lower bounds of all bins but the first.
        check: for a salt from the environment, what recognises the right one.
    """

    spec: Kind
    start: int
    slots: int
    values: Vocabulary
    counts: IntArray
    edges: tuple[float, ...] = ()
    check: str | None = None

    @property
    def name(self) -> str:
        """The column."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Number of ids, id 0 included."""
        return len(self.counts)

    def encode(
        self, column: pa.Array, *, missing: frozenset[str], first_row: int = 1
    ) -> tuple[IntArray, AttributeCounts]:
        """Turn a column into ids.

        Args:
            column: the values of the rows.
            missing: canonical texts that mean no value.
            first_row: number of the first row, for messages.

        Returns:
            Ids of shape (rows, slots), known values first and then 0; and what was done.

        Raises:
            DataError: naming the row of a value that is not a number, not a list, or unseen with `unseen="error"`.
            ConfigError: when the salt is not in the environment, or is another one than at fit time.
        """
        cells = read_cells(self.spec, column, missing=missing, first_row=first_row)
        found = self._ids(cells, first_row)[cells.codes]
        known = found > 0
        rows, kept = _distinct_pairs(cells.rows[known], found[known])
        place = np.arange(len(rows)) - np.searchsorted(rows, rows, side="left")
        fits = place < self.slots
        ids = np.zeros((cells.height, self.slots), dtype=np.int64)
        ids[rows[fits], place[fits]] = kept[fits]
        counts = AttributeCounts(
            rows=cells.height,
            missing=cells.missing,
            unseen=int((~known).sum()),
            trimmed=cells.trimmed,
            dropped=int((~fits).sum()),
        )
        return ids, counts

    def unknown(self, column: pa.Array, *, missing: frozenset[str], first_row: int = 1) -> list[list[str]]:
        """The values of each row that are not in the vocabulary; hashed values and numbers always have an id.

        Args:
            column: the values of the rows.
            missing: canonical texts that mean no value.
            first_row: number of the first row, for messages.

        Raises:
            DataError: as `encode`.
        """
        cells = read_cells(self.spec, column, missing=missing, first_row=first_row)
        found: list[list[str]] = [[] for _ in range(cells.height)]
        if isinstance(self.spec, Numeric) or self.spec.unseen == "hash":
            return found
        known = self.values.ids(cells.texts) > 0
        for row, code in zip(cells.rows, cells.codes, strict=True):
            if not known[code]:
                found[row].append(cells.texts[code])
        return found

    def grown(self, other: FittedAttribute, *, start: int) -> FittedAttribute:
        """The same with the values of another fit as ids after its own; see `Schema.grown`."""
        slots = max(self.slots, other.slots)
        if isinstance(self.spec, Numeric):
            return replace(self, start=start)
        if not self.values or not other.values:
            if (self.size, self.check, self.spec.unseen) != (
                other.size,
                other.check,
                getattr(other.spec, "unseen", ""),
            ):
                raise ConfigError(f"attribute {self.name!r} is hashed in two ways: give both the same buckets and salt")
            return replace(self, start=start, slots=slots, counts=self.counts + other.counts)
        ids = self.values.ids(other.values[:])
        new = [value for value, known in zip(other.values, ids, strict=True) if not known]
        ids[ids == 0] = np.arange(self.size, self.size + len(new))
        counts = np.concatenate([self.counts, np.zeros(len(new), dtype=np.int64)])
        counts[0] += other.counts[0]
        counts[ids] += other.counts[1:]
        return replace(self, start=start, slots=slots, values=Vocabulary([*self.values, *new]), counts=counts)

    def _ids(self, cells: Cells, first_row: int) -> IntArray:
        if isinstance(self.spec, Numeric):
            numbers = numbers_of(cells, column=self.name, first_row=first_row)
            return np.searchsorted(np.asarray(self.edges), numbers, side="right").astype(np.int64) + 1
        if self.spec.unseen == "hash":
            return hashed_ids(self.spec, cells.texts, check=self.check)
        ids = self.values.ids(cells.texts)
        if self.spec.unseen == "error" and not ids.all():
            raise self._unseen(cells, ids, first_row)
        return ids

    def _unseen(self, cells: Cells, ids: IntArray, first_row: int) -> DataError:
        cell = int(np.argmax(ids[cells.codes] == 0))
        value = cells.texts[cells.codes[cell]]
        close = difflib.get_close_matches(value, self.values, n=1) if len(self.values) <= SEARCHABLE else []
        hint = f"; the closest known value is {close[0]!r}" if close else ""
        return RowError(
            f"attribute {self.name!r}, ",
            first_row + int(cells.rows[cell]),
            f": the value {value!r} was not seen in training{hint}: correct the row, or fit the schema with "
            "unseen='unknown'",
        )


def counts_of_rows(counts: IntArray, ids: IntArray) -> IntArray:
    """For each row how many training rows have its value; of several values the rarest, 0 without a known one.

    Args:
        counts: (size,), training rows of each id.
        ids: (n, slots) of one attribute; 0 is no value, or an unknown one.
    """
    most = np.iinfo(np.int64).max
    found = np.where(ids > 0, counts[ids], most).min(axis=1, initial=most)
    return np.where(found == most, 0, found)


def read_cells(spec: Kind, column: pa.Array, *, missing: frozenset[str], first_row: int) -> Cells:
    """Read a column in the way of its kind."""
    if isinstance(spec, MultiLabel):
        return list_cells(column, separator=spec.separator, missing=missing, column=spec.name, first_row=first_row)
    return single_cells(column, missing=missing, column=spec.name, first_row=first_row)


def numbers_of(cells: Cells, *, column: str, first_row: int) -> npt.NDArray[np.float64]:
    """Read the distinct texts of a column as finite numbers, float64 of shape (len(texts),).

    Raises:
        DataError: naming row and value of the first text that is not a finite number.
    """
    numbers = np.array([_number(text) for text in cells.texts], dtype=np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        cell = int(np.argmax(bad[cells.codes]))
        raise RowError(
            f"column {column!r}, ",
            first_row + int(cells.rows[cell]),
            f": {cells.texts[cells.codes[cell]]!r} is not a finite number: correct it, add it to the missing values, "
            "or use Categorical",
        )
    return numbers


def hashed_ids(spec: Categorical | MultiLabel, texts: Sequence[str], *, check: str | None) -> IntArray:
    """Hash each text to 1..buckets, the same on every machine.

    Raises:
        ConfigError: when the salt is not in the environment, or does not agree with `check`.
    """
    key = _key(spec)
    if check is not None and salt_check(spec) != check:
        raise ConfigError(
            f"attribute {spec.name!r}: the salt in {spec.salt} is not the one of training, so every id would be wrong: "
            "set the same value"
        )
    digests = (hashlib.blake2b(text.encode(), key=key, digest_size=8).digest() for text in texts)
    return np.array([int.from_bytes(digest, "little") % spec.buckets + 1 for digest in digests], dtype=np.int64)


def salt_check(spec: Categorical | MultiLabel) -> str | None:
    """Make the value that recognises the salt again; None unless it comes from the environment."""
    if spec.salt is None or not spec.salt.startswith(_ENVIRONMENT):
        return None
    return hashlib.blake2b(b"attribune", key=_key(spec), digest_size=8, person=b"check").hexdigest()


def _key(spec: Categorical | MultiLabel) -> bytes:
    salt = spec.salt or ""
    if salt.startswith(_ENVIRONMENT):
        variable = salt.removeprefix(_ENVIRONMENT)
        salt = os.environ.get(variable, "")
        if not salt:
            raise ConfigError(
                f"attribute {spec.name!r}: the environment variable {variable!r} with the salt is not set: "
                "set it to the value used in training"
            )
    return hashlib.blake2b(salt.encode()).digest() if salt else b""


def _number(text: str) -> float:
    try:
        return float("nan") if "_" in text else float(text)
    except ValueError:
        return float("nan")


def _distinct_pairs(rows: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Take out an id that a row already has: two values of a row can share one bucket."""
    key = rows * (int(ids.max(initial=0)) + 1) + ids
    first = np.sort(np.unique(key, return_index=True)[1])
    return rows[first], ids[first]


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"an attribute needs the name of its column, not {name!r}")


def _at_least_one(name: str, setting: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"attribute {name!r}: {setting}={value!r} must be a whole number of at least 1")
