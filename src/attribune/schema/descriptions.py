"""Descriptions of values, read from a second table: who a user is, or what a product is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.arrays import BoolArray, DoubleArray, FloatArray, IntArray
from attribune.core.wording import shortened
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.attributes import LARGEST_NUMBER, AttributeFitter, FittedAttribute, numbers_of
from attribune.schema.columns import (
    Table,
    canonical,
    column_batches,
    column_names,
    float_of,
    require_columns,
    require_once,
    single_cells,
    whole_columns,
)
from attribune.schema.description_kinds import (
    Field,
    FittedField,
    Number,
    Text,
    ValueDescriptions,
    Vector,
    holds_numbers,
    infer_field,
)
from attribune.schema.kinds import Kind, VocabularyKind

TextVectors = Callable[[Text, Sequence[str]], FloatArray]
"""Returns the vectors (n, H) of the texts of a column by its encoder."""

_LARGEST = 1e4  # standardised figures are cut there


@dataclass(frozen=True, kw_only=True)
class ValueTable:
    """A table that describes the values of an attribute, with one row per value.

    Args:
        table: anything with columns that `Schema.fit` takes.
        key: the column with the values.
        fields: what its other columns say; by default inferred from their cells.
        own_vectors: whether a value has a vector of its own in addition to its description.
        text_vectors: function that encodes texts; needed only for columns of texts.
        encoder: of columns of texts that name none.
        revision: of that encoder on the hub.
        source: name of the table, for messages.
    """

    table: Table
    key: str
    fields: tuple[Field, ...] = ()
    own_vectors: bool = True
    text_vectors: TextVectors | None = None
    encoder: str | None = None
    revision: str | None = None
    source: str = "the table of values"

    def column(self, name: str) -> pa.Array:
        """Return the cells of a column."""
        return whole_columns(self.table, [name])[name]

    def described(self, spec: Kind, *, missing: frozenset[str]) -> list[str]:
        """Return the values that are described, of an attribute of some kind; see `fit_descriptions`."""
        with _named(self):
            return _read_values(self, spec, missing=missing)[0]


def fit_descriptions(
    values: ValueTable, attribute: FittedAttribute, *, missing: frozenset[str]
) -> tuple[ValueDescriptions, list[str]]:
    """Read the descriptions of an attribute's values; returns them, and notes of what was found.

    Numbers are standardised, and categories listed, by the values that training rows have.

    Raises:
        DataError: for a table that cannot be used, naming column and row.
    """
    with _named(values):
        keys, rows = _read_values(values, attribute.spec, missing=missing)
        ids = attribute.values.ids(keys)
        trained = rows[(ids > 0) & (attribute.counts[ids] > 0)]
        if not len(trained):
            raise DataError(
                f"{values.source} describes none of the {int((attribute.counts[1:] > 0).sum()):,} values of "
                f"{attribute.name!r} in the training rows ({_first(attribute.values)}), but {_first(keys)}: "
                f"check the column {values.key!r}"
            )
        specs, notes = _specs(values, missing)
        fitted = [_fit_field(spec, values, rows, trained, missing) for spec in specs]
    known = ids > 0
    features = np.zeros((attribute.size, sum(one.width for one, _ in fitted)), np.float32)
    features[ids[known]] = np.concatenate([block for _, block in fitted], axis=1)[known]
    listed = ", ".join(f"{spec.name} ({spec.kind})" for spec in specs)
    first = (
        f"values of {attribute.name!r}: {len(trained):,} in training rows are described in {len(keys):,} rows of "
        f"{values.source} by {listed}"
    )
    fields = tuple(one for one, _ in fitted)
    return ValueDescriptions(fields=fields, features=features, own_vectors=values.own_vectors), [first, *notes]


def describe(
    description: ValueDescriptions, values: ValueTable, spec: Kind, *, missing: frozenset[str]
) -> tuple[list[str], FloatArray]:
    """Read the descriptions of further values of an attribute; returns the values and their features (n, F).

    Raises:
        DataError: for a table that lacks a column, or cannot be used.
    """
    names = [one.spec.name for one in description.fields]
    require_columns(column_names(values.table), names, source=values.source)
    with _named(values):
        keys, rows = _read_values(values, spec, missing=missing)
        blocks = [_encode(one, values, rows, missing) for one in description.fields]
        return keys, np.concatenate(blocks, axis=1)


def _read_values(values: ValueTable, spec: Kind, *, missing: frozenset[str]) -> tuple[list[str], IntArray]:
    """Read the values that a table describes, and the row of each, from 0; rows without a value are passed over.

    Raises:
        DataError: for a table without rows or without the column, or a value that is described twice.
    """
    require_columns(column_names(values.table), [values.key], source=values.source)
    keys: dict[str, int] = {}
    for first, columns in column_batches(values.table, [values.key]):
        cells = single_cells(columns[values.key], missing=missing, column=values.key, first_row=first)
        if spec.derives_values:
            cells = cells.map(spec.value_of, column=values.key, first_row=first)
        for row, code in zip((cells.rows + first - 1).tolist(), cells.codes.tolist(), strict=True):
            before = keys.setdefault(cells.texts[code], row)
            if before != row:
                raise DataError(
                    f"{values.source}: rows {before + 1} and {row + 1} both describe {cells.texts[code]!r} in column "
                    f"{values.key!r}: keep one"
                )
    if not keys:
        raise DataError(f"{values.source} has no value in its column {values.key!r}: give a row for each value")
    return list(keys), np.array(list(keys.values()), dtype=np.int64)


@contextmanager
def _named(values: ValueTable) -> Iterator[None]:
    """Let messages name the table of values, and no row of the table of rows."""
    try:
        yield
    except DataError as error:
        if values.source in str(error) and not isinstance(error, RowError):
            raise
        raise DataError(f"{values.source}: {error}") from error


def _specs(values: ValueTable, missing: frozenset[str]) -> tuple[tuple[Field, ...], list[str]]:
    """Return the columns that are read, and notes of those that are not."""
    names, given = column_names(values.table), [spec.name for spec in values.fields]
    if given:
        require_columns(names, given, source=values.source)
        require_once(given)
        return values.fields, []
    inferred = {name: infer_field(name, values.column(name), missing=missing) for name in names if name != values.key}
    specs = [spec for spec in inferred.values() if spec is not None]
    passed = [name for name, spec in inferred.items() if spec is None]
    if not specs:
        raise DataError(
            f"{values.source} has no column beside {values.key!r} that describes its values: add one, or name the "
            "columns and their kinds"
        )
    note = (
        f"{values.source}: column {', '.join(map(repr, passed))} is not read, as it is empty or has a word of its own "
        "for nearly every value: name it with its kind if it says something"
    )
    return tuple(specs), [note] if passed else []


def _fit_field(
    spec: Field, values: ValueTable, rows: IntArray, trained: IntArray, missing: frozenset[str]
) -> tuple[FittedField, FloatArray]:
    """Fit a column on the rows of training values; returns it, and the features of all rows."""
    if isinstance(spec, Text) and spec.encoder is None:
        spec = replace(spec, encoder=values.encoder, revision=values.revision)
    if isinstance(spec, VocabularyKind):
        column = values.column(spec.name)
        spec.read(column, missing=missing, first_row=1)  # every row, for its number in messages
        fitter = AttributeFitter(spec, missing=missing)
        fitter.add(column.take(pa.array(trained)), first_row=1)
        if not fitter.has_values:
            raise _empty(spec, values)
        attribute, _ = fitter.finish()
        one = FittedField(spec=spec, categories=attribute.values, slots=attribute.slots)
        return one, _encode(one, values, rows, missing)
    figures, there = _figures(spec, values, missing)
    seen = figures[trained[there[trained]]]
    if not len(seen):
        raise _empty(spec, values)
    largest, scale = np.abs(seen).max(initial=0), seen.std(axis=0)
    if largest > LARGEST_NUMBER or ((scale > 0) & (scale < 1 / LARGEST_NUMBER)).any():
        raise DataError(
            f"{values.source}: column {spec.name!r} has numbers too large or too close to each other for single "
            f"precision (the largest is {largest:g}): give them in another unit, or their logarithms"
        )
    one = FittedField(
        spec=spec,
        mean=seen.mean(axis=0).astype(np.float32),
        scale=np.where(scale > 1e-12 * np.abs(seen).max(axis=0), scale, 1).astype(np.float32),
    )
    return one, _standardised(one, figures, there)[rows]


def _empty(spec: Field, values: ValueTable) -> DataError:
    return DataError(
        f"{values.source}: column {spec.name!r} is empty for all values that training rows have: leave it out"
    )


def _encode(one: FittedField, values: ValueTable, rows: IntArray, missing: frozenset[str]) -> FloatArray:
    """Return the features (n, width) of some rows of a table."""
    if isinstance(one.spec, VocabularyKind):
        counts = np.ones(len(one.categories) + 1, np.int64)
        read = FittedAttribute(spec=one.spec, slots=one.slots, values=one.categories, counts=counts)
        return read.encode(values.column(one.spec.name), missing=missing)[0][rows].astype(np.float32)
    figures, there = _figures(one.spec, values, missing)
    if figures.shape[1] != len(one.mean):
        raise DataError(
            f"{values.source}: column {one.spec.name!r} has vectors of {figures.shape[1]} numbers, but those of the "
            f"training have {len(one.mean)}: give the same"
        )
    return _standardised(one, figures, there)[rows]


def _standardised(one: FittedField, figures: DoubleArray, there: BoolArray) -> FloatArray:
    scaled = ((figures - one.mean) / one.scale).clip(-_LARGEST, _LARGEST)
    return np.concatenate([np.where(there[:, None], scaled, 0), there[:, None]], axis=1).astype(np.float32)


def _figures(spec: Field, values: ValueTable, missing: frozenset[str]) -> tuple[DoubleArray, BoolArray]:
    """Return the figures (n, d) of all rows, 0 where there are none, and where there are some."""
    if isinstance(spec, Vector):
        return _vectors(spec, values, missing)
    cells = single_cells(values.column(spec.name), missing=missing, column=spec.name, first_row=1)
    there = np.zeros(cells.height, dtype=bool)
    there[cells.rows] = True
    if isinstance(spec, Number):
        parts = numbers_of(cells, column=spec.name, first_row=1)[:, None]
    else:
        assert isinstance(spec, Text)
        if values.text_vectors is None:
            raise ConfigError(f"column {spec.name!r} is of texts, and there is no encoder: give text_vectors")
        parts = values.text_vectors(spec, cells.texts).astype(np.float64)
    figures = np.zeros((cells.height, parts.shape[1]))
    figures[cells.rows] = parts[cells.codes]
    return figures, there


def _vectors(spec: Vector, values: ValueTable, missing: frozenset[str]) -> tuple[DoubleArray, BoolArray]:
    """Do as `_figures` for lists of numbers."""
    column = values.column(spec.name)
    if not pa.types.is_nested(column.type):
        column = _parsed_lists(spec, column, missing)
    there, flat = column.is_valid().to_numpy(zero_copy_only=False), pc.list_flatten(column)
    lengths = np.unique(pc.list_value_length(column).drop_null().to_numpy(zero_copy_only=False)).tolist()
    if len(lengths) != 1:
        shown = "no vector" if not lengths else f"vectors of {' and '.join(map(str, lengths[:3]))} numbers"
        raise DataError(f"{values.source}: column {spec.name!r} has {shown}: give each value as many")
    numbers = flat.to_numpy(zero_copy_only=False)
    if not holds_numbers(flat.type):
        numbers = np.array(list(map(float_of, flat.to_pylist())))
    figures = np.zeros((len(column), lengths[0]))
    figures[there] = numbers.reshape(there.sum(), lengths[0])
    if not (finite := np.isfinite(figures).all(axis=1)).all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{values.source}: column {spec.name!r}, row {row + 1}: {shortened(str(column[row].as_py()), 60)} is not a "
            "vector of finite numbers: correct it, or leave the cell empty"
        )
    return figures, there


def _parsed_lists(spec: Vector, column: pa.Array, missing: frozenset[str]) -> pa.Array:
    texts = [canonical(cell) for cell in column.to_pylist()]
    lists: list[list[str] | None] = []
    for row, text in enumerate(texts, start=1):
        if text is None or text in missing:
            lists.append(None)
        elif text.startswith("[") and text.endswith("]"):
            lists.append([part.strip() for part in text[1:-1].split(",")])
        else:
            raise DataError(
                f"column {spec.name!r}, row {row}: {shortened(text, 60)!r} is not a vector: write [0.1, 0.2], or leave "
                "it empty"
            )
    return pa.array(lists, type=pa.list_(pa.string()))


def _first(values: Sequence[str]) -> str:
    shown = ", ".join(map(repr, values[:3]))
    return f"{shown}, ..." if len(values) > 3 else shown
