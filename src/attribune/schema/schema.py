"""The schema: the attributes of a table, their vocabularies with training counts, and the slots of `attribute_ids`.

    schema = Schema.fit(train, [Categorical("user"), MultiLabel("tags", separator="|"), Numeric("year")])
    attribute_ids, report = schema.encode(table)

Id 0 means missing, unknown or dropped, and contributes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from attribune.core.arrays import FloatArray, IntArray
from attribune.core.files import read_json
from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.metrics.tables import html_table, text_cells
from attribune.schema.attributes import SEARCHABLE, AttributeFitter, FittedAttribute, NoNumberError, Slots
from attribune.schema.columns import MISSING, Cells, Table, canonical, column_batches
from attribune.schema.date_parts import with_parts
from attribune.schema.descriptions import ValueTable, describe, fit_descriptions
from attribune.schema.kinds import (
    Kind,
    as_kinds,
    checked_missing,
    checked_names,
    nested_columns,
)
from attribune.schema.reports import AttributeCounts, AttributeFit, EncodingReport, FitReport
from attribune.schema.serialization import attributes_from_dict, attributes_to_dict, files_beside, write_attributes
from attribune.schema.vocabulary import Vocabulary

_COMMON = 5  # values of an attribute that are shown


class Schema:
    """The fitted attributes, in order, with the slots of each.

    Attributes:
        attributes: the fitted attributes; `len(schema)`, `schema["user"]` and iteration work too.
        slots: width of `attribute_ids`.
        fit_report: what fitting found; None for a schema that was loaded.
    """

    def __init__(
        self,
        attributes: Sequence[FittedAttribute],
        *,
        missing: Sequence[str] = MISSING,
        fit_report: FitReport | None = None,
    ) -> None:
        starts = accumulate((one.slots for one in attributes), initial=0)
        self.attributes = tuple(replace(one, start=start) for one, start in zip(attributes, starts, strict=False))
        self.missing = tuple(missing)
        self.fit_report = fit_report
        self.slots = sum(attribute.slots for attribute in self.attributes)
        self._missing = _canonical_texts(missing)
        self._by_name = {attribute.name: attribute for attribute in self.attributes}

    @classmethod
    def fit(
        cls,
        table: Table,
        attributes: Sequence[Kind | str],
        *,
        missing: Sequence[str] = MISSING,
        values: Mapping[str, ValueTable] | None = None,
        described: bool = True,
    ) -> Self:
        """Learn the vocabularies from the training rows, in batches.

        Args:
            attributes: `Categorical`, `MultiLabel`, `Hierarchy`, `Numeric`, `Number` or `Date`, in the order of their
                slots; the name of a column is a categorical one. A `Date` becomes an attribute for each of its parts.
            values: tables that describe the values of attributes; all values in them are known, also those of which
                there is no training row.
            described: whether to read the descriptions, not only the values.

        Raises:
            DataError: for a missing column, or a value that does not fit its attribute.
            ConfigError: for an attribute given twice, or something that is not an attribute; for descriptions of values
                that are not listed.
        """
        missing = checked_missing(missing)
        kinds = as_kinds(attributes)
        checked_names(kinds)
        if values is not None and not isinstance(values, Mapping):
            raise ConfigError(f"values is {values!r:.80}: give tables by attribute, {{'user': ValueTable(...)}}")
        meaningless, values = _canonical_texts(missing), values or {}
        _check_describable(kinds, values)
        kinds = with_parts(kinds, table, missing=meaningless)
        fitters = {
            spec.name: AttributeFitter(
                spec,
                missing=meaningless,
                described=values[spec.name].described(spec, missing=meaningless) if spec.name in values else (),
            )
            for spec in kinds
        }
        read = list(dict.fromkeys(spec.column for spec in kinds))
        for first_row, columns in column_batches(table, read):
            for spec in kinds:
                fitters[spec.name].add(columns[spec.column], first_row=first_row)
        fitted: list[FittedAttribute] = []
        fits: dict[str, AttributeFit] = {}
        for name, fitter in fitters.items():
            attribute, fits[name] = fitter.finish()
            if name in values and described:
                description, notes = fit_descriptions(values[name], attribute, missing=meaningless)
                fits[name] = replace(fits[name], notes=[*fits[name].notes, *notes])
                attribute = replace(attribute, description=description)
            fitted.append(attribute)
        return cls(fitted, missing=missing, fit_report=FitReport(fits))

    def encode(self, table: Table, *, first_row: int = 1) -> tuple[IntArray, EncodingReport]:
        """Turn the attribute columns of a table into `attribute_ids` (rows, slots), and report what was done.

        Args:
            first_row: number of the table's first row in its source, for messages.

        Raises:
            DataError: for a missing column, a value that does not fit its attribute, or one refused as unseen.
        """
        report = EncodingReport({name: AttributeCounts() for name in self.names})
        if not self.attributes:
            row_count = max(map(len, table.values()), default=0) if isinstance(table, Mapping) else len(table)
            return np.zeros((row_count, 0), dtype=np.int64), report
        blocks = [np.zeros((0, self.slots), dtype=np.int64)]
        for start, columns in column_batches(table, self.sources, first_row=first_row):
            encoded = {
                attribute.name: self.encode_one(attribute, columns[attribute.column], first_row=start)
                for attribute in self.attributes
            }
            blocks.append(np.concatenate([ids for ids, _ in encoded.values()], axis=1))
            report += EncodingReport({name: counts for name, (_, counts) in encoded.items()})
        return np.concatenate(blocks), report

    def encode_one(
        self, attribute: FittedAttribute, column: pa.Array, *, first_row: int = 1
    ) -> tuple[IntArray, AttributeCounts]:
        """Turn the column of one attribute into its ids (rows, slots), and count what was done; see `encode`."""
        return attribute.encode(column, missing=self._missing, first_row=first_row)

    def unknown(self, table: Table, *, first_row: int = 1) -> dict[str, list[list[str]]]:
        """Return for each attribute the values of each row that are not in its vocabulary; see `encode`."""
        unknown: dict[str, list[list[str]]] = {name: [] for name in self.names}
        for start, columns in column_batches(table, self.sources, first_row=first_row):
            for attribute in self.attributes:
                column = columns[attribute.column]
                unknown[attribute.name] += attribute.unknown(column, missing=self._missing, first_row=start)
        return unknown

    def written(self, table: Table, *, names: Collection[str], first_row: int = 1) -> list[tuple[tuple[str, ...], ...]]:
        """Return for each row the values of every attribute as they are written; see `encode`.

        Args:
            names: of the attributes that are written; those of others are left out.
        """
        rows: list[tuple[tuple[str, ...], ...]] = []
        for start, columns in column_batches(table, self.sources, first_row=first_row):
            parts = (
                map(tuple, self._cells_of(attribute, columns, start).by_row())
                if attribute.name in names
                else [()] * len(columns[attribute.column])
                for attribute in self.attributes
            )
            rows += zip(*parts, strict=True)
        return rows

    def cells(self, table: Table, name: str) -> Iterator[tuple[int, Cells]]:
        """Read the values of an attribute, known or not, in batches; yields the number of a batch's first row with it.

        Raises:
            DataError: for a missing column, or a value that does not fit the attribute.
        """
        attribute = self[name]
        for start, columns in column_batches(table, [attribute.column]):
            yield start, self._cells_of(attribute, columns, start)

    def _cells_of(self, attribute: FittedAttribute, columns: Mapping[str, pa.Array], first_row: int) -> Cells:
        return attribute.spec.read(columns[attribute.column], missing=self._missing, first_row=first_row)

    def grown(self, other: Schema) -> Schema:
        """Add the values of another schema of these attributes, as ids after those of this one; counts add up.

        Numbers keep the bins of this schema, hashed values their buckets.

        Raises:
            ConfigError: for an attribute that the other schema lacks, or hashes in another way.
        """
        attributes = [attribute.grown(other[attribute.name]) for attribute in self.attributes]
        return Schema(attributes, missing=self.missing, fit_report=other.fit_report)

    def with_descriptions(self, values: Mapping[str, ValueTable], *, known: Schema) -> Schema:
        """Return the schema with descriptions of the values that another one does not know, as it describes others.

        Raises:
            DataError: for a table that lacks a column, or cannot be used.
        """
        attributes = []
        for attribute in self.attributes:
            if attribute.name in values and attribute.description is not None:
                table, description = values[attribute.name], attribute.description
                keys, features = describe(description, table, attribute.spec, missing=self._missing)
                ids, described = attribute.values.ids(keys), description.features.copy()
                is_new = ids >= known[attribute.name].size
                described[ids[is_new]] = features[is_new]
                attribute = replace(attribute, description=replace(description, features=described))
            attributes.append(attribute)
        return Schema(attributes, missing=self.missing, fit_report=self.fit_report)

    def means_missing(self, text: str | None) -> bool:
        """Whether a canonical text stands for no value."""
        return text is None or text in self._missing

    @property
    def layout(self) -> tuple[Slots, ...]:
        """The columns of each attribute in `attribute_ids`, and its number of ids."""
        return tuple(attribute.layout for attribute in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes, in order."""
        return tuple(self._by_name)

    @property
    def sources(self) -> tuple[str, ...]:
        """What the attributes are read from: a column, of dates for several of them, or those of a hierarchy as one."""
        return tuple(dict.fromkeys(attribute.column for attribute in self.attributes))

    def named(self, name: str) -> list[FittedAttribute]:
        """Return the attribute of a name, or all that are read from the column of this name."""
        return [attribute for attribute in self.attributes if name in (attribute.name, attribute.column)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that are read."""
        return tuple(dict.fromkeys(column for attribute in self.attributes for column in attribute.spec.columns))

    @property
    def nested(self) -> dict[str, tuple[str, ...]]:
        """The columns of each hierarchy, by its name."""
        return nested_columns([attribute.spec for attribute in self.attributes])

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[FittedAttribute]:
        return iter(self.attributes)

    def __repr__(self) -> str:
        return text_cells(self._cells(), left=2)

    def _repr_html_(self) -> str:
        return html_table(self._cells())

    def _cells(self) -> list[list[str]]:
        """Return a line for each attribute: its kind, how many ids it has in how many slots, its commonest values."""
        lines = [["attribute", "kind", "ids", "slots", "most common"]]
        for one in self.attributes:
            values = zip(one.values[:_COMMON], one.counts[1:], strict=False)
            common = ", ".join(f"{value:.40} ({count:,})" for value, count in values)
            lines.append([one.name, one.spec.kind, f"{one.size:,}", str(one.slots), common or "not listed"])
        return lines

    def __getitem__(self, name: str) -> FittedAttribute:
        if name not in self._by_name:
            hint = did_you_mean(name, self.names)
            known = ", ".join(self.names) or "none"
            raise ConfigError(f"the schema has no attribute {name!r}{hint} (attributes: {known})")
        return self._by_name[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain JSON values."""
        return attributes_to_dict(self.attributes, self.missing)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: Path | None = None) -> Self:
        """Build the schema that `to_dict` returned, or that a file of `save` holds.

        Args:
            folder: folder of the file; None if no vocabulary is in a separate file.

        Raises:
            ModelFolderError: for data that is not a schema, is of another version, or contradicts itself.
        """
        attributes, missing = attributes_from_dict(data, folder=folder)
        return cls(attributes, missing=missing)

    def save(self, path: str | Path) -> None:
        """Write the schema as a JSON file, and a vocabulary of more than 100,000 values as an Arrow file beside it.

        Raises:
            ModelFolderError: when a file cannot be written; what was there before is still whole.
        """
        write_attributes(Path(path), self.attributes, self.missing)

    files_beside = staticmethod(files_beside)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a schema file.

        Raises:
            ModelFolderError: naming a file that is missing, truncated, not a schema, or contradicts itself.
        """
        data = read_json(path, what="schema")
        try:
            return cls.from_dict(data, folder=Path(path).parent)
        except ModelFolderError as error:
            raise ModelFolderError(f"{path}: {error}; restore the file, or train and save the model again") from error


def _check_describable(attributes: Sequence[Kind], values: Mapping[str, ValueTable]) -> None:
    kinds = {spec.name: spec for spec in attributes}
    for name in values:
        if name not in kinds:
            raise ConfigError(
                f"values of {name!r} are described, which is no attribute (attributes: {', '.join(kinds) or 'none'})"
            )
        if not kinds[name].lists_values:
            what = "hashed" if kinds[name].unseen == "hash" else kinds[name].kind
            raise ConfigError(
                f"the values of attribute {name!r} are not listed (it is {what}), so that none can be described: leave "
                "its table of values out"
            )


def _canonical_texts(missing: Sequence[str]) -> frozenset[str]:
    return frozenset(text for text in map(canonical, missing) if text is not None)


_SEARCHABLE = 100_000  # values among which a close one is looked for


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A new schema, and for every table with a row for each id the origin of its rows.

    Attributes:
        ids: by attribute, for each id of the new schema that of the old one; 0, the unknown, for a new value.
    """

    schema: Schema
    ids: Mapping[str, IntArray]

    @classmethod
    def adding(
        cls,
        schema: Schema,
        values: Mapping[str, Mapping[str, int]],
        features: Mapping[str, Mapping[str, FloatArray]] | None = None,
    ) -> Revision:
        """Add values, whose ids follow the old ones.

        Args:
            values: by attribute, new values and the number of rows that have each.
            features: by attribute, what is known of new values; see `ValueDescriptions`.

        Raises:
            ConfigError: for an attribute that has no list of values, or a value that it has already.
        """

        def grown(attribute: FittedAttribute) -> tuple[FittedAttribute, IntArray]:
            check_listed(attribute)
            new = values[attribute.name]
            if (old := attribute.values.ids(list(new))).any():
                value = list(new)[int(np.flatnonzero(old)[0])]
                raise ConfigError(f"attribute {attribute.name!r} has the value {value!r} already: leave it out")
            ids = np.concatenate([np.arange(attribute.size), np.zeros(len(new), dtype=np.int64)])
            counts = np.concatenate([attribute.counts, np.array(list(new.values()), dtype=np.int64)])
            description = attribute.description
            if description is not None:
                known = (features or {}).get(attribute.name, {})
                unknown = description.features[0]
                rows = np.array([known.get(value, unknown) for value in new]).reshape(len(new), len(unknown))
                description = description.take(ids, rows)
            vocabulary = attribute.values.added(list(new))
            return replace(attribute, values=vocabulary, counts=counts, description=description), ids

        return cls._of(schema, {name: grown(schema[name]) for name, new in values.items() if new})

    @classmethod
    def removing(cls, schema: Schema, values: Mapping[str, tuple[str, ...]], *, count_rows: bool = True) -> Revision:
        """Remove values; the ids of those behind them move up.

        Args:
            count_rows: whether their rows count as rows without a value from then on.

        Raises:
            ConfigError: for an attribute that has no list of values, or a value that is not in it.
        """

        def shrunk(attribute: FittedAttribute) -> tuple[FittedAttribute, IntArray]:
            check_listed(attribute)
            removed = attribute.values.ids(values[attribute.name])
            for value, number in zip(values[attribute.name], removed, strict=True):
                if not number:
                    raise _not_there(attribute, value)
            ids = np.delete(np.arange(attribute.size), removed)
            counts = attribute.counts[ids]
            counts[0] += attribute.counts[np.unique(removed)].sum() * count_rows
            remaining = Vocabulary(attribute.values[int(number) - 1] for number in ids[1:])
            description = attribute.description
            description = None if description is None else description.take(ids).without_unused_categories()
            return replace(attribute, values=remaining, counts=counts, description=description), ids

        return cls._of(schema, {name: shrunk(schema[name]) for name in values})

    @classmethod
    def _of(cls, schema: Schema, changed: Mapping[str, tuple[FittedAttribute, IntArray]]) -> Revision:
        attributes = [changed[one.name][0] if one.name in changed else one for one in schema]
        return cls(
            schema=Schema(attributes, missing=schema.missing), ids={name: ids for name, (_, ids) in changed.items()}
        )


def check_listed(attribute: FittedAttribute) -> None:
    """Refuse an attribute whose values are not a list.

    Raises:
        ConfigError: naming it and the reason.
    """
    if attribute.spec.is_numeric:
        raise ConfigError(
            f"attribute {attribute.name!r} is of the kind {attribute.spec.kind}, which has no list of values: none can "
            "be added or removed; name a categorical or multi-label attribute"
        )
    if not attribute.spec.lists_values:
        raise ConfigError(
            f"attribute {attribute.name!r} is hashed: a value shares its vector with others, so that it can be neither "
            "added nor removed alone"
        )


def _not_there(attribute: FittedAttribute, value: str) -> ConfigError:
    # Of two numbers as names, the closest spelling is someone else.
    is_searched = attribute.size <= _SEARCHABLE and not value.isdigit()
    hint = did_you_mean(value, attribute.values) if is_searched else ""
    return ConfigError(f"attribute {attribute.name!r} has no value {value!r}{hint}")


def parse_assignments(words: Sequence[str]) -> dict[str, list[str]]:
    """Read ``user=u17`` and the like: attribute to its values, in the order of the words.

    Raises:
        ConfigError: for a word without a name, an equals sign or a value.
    """
    assignments: dict[str, list[str]] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (name.strip() and sign and value.strip()):
            raise ConfigError(f"{word!r} does not name a value: write it as user=u17, and leave out what is not known")
        assignments.setdefault(name.strip(), []).append(value)
    return assignments


def assignments_text(assignments: Mapping[str, Sequence[str]]) -> str:
    """Write values as a user does."""
    return " ".join(f"{name}={value}" for name, values in assignments.items() for value in values) or "no attributes"


def assigned_ids(schema: Schema, assignments: Mapping[str, Sequence[str]]) -> IntArray:
    """Return the ids (slots,) of a row that has these values and no others.

    Args:
        assignments: attribute to its values; only a multi-label attribute has several. A column of dates may be named
            in place of its parts; a part that is named itself comes first.

    Raises:
        ConfigError: for an unknown attribute or value, with the closest known ones, or too many values.
    """
    for name in assignments:
        if not schema.named(name):
            raise ConfigError(
                f"the model has no attribute {name!r}{did_you_mean(name, schema.names, most=3)} (attributes: "
                f"{', '.join(schema.names) or 'none'})"
            )
    given = {one.name: assignments.get(one.name, assignments.get(one.column, ())) for one in schema}
    try:
        encoded = {one.name: schema.encode_one(one, _column(one, given[one.name])) for one in schema}
    except NoNumberError as error:
        raise error.of_one_value() from error
    except DataError as error:
        raise ConfigError(str(error)) from error
    for name, attribute in [(given_name, one) for given_name in assignments for one in schema.named(given_name)]:
        values, (_, counts) = given[attribute.name], encoded[attribute.name]
        if counts.unread:
            words = attribute.spec.words
            raise ConfigError(f"attribute {name!r}: {values[0]!r} is not {words}: correct it, or leave it out")
        if counts.unseen and name == attribute.name:
            known = attribute.values
            new = next((value for value in values if value.strip() not in known), values[0])
            hint = did_you_mean(new, known, most=3) if len(known) <= SEARCHABLE else ""
            cure = hint or ": correct it, or leave it out"
            raise ConfigError(f"attribute {name!r} has no value {new!r} in training{cure}")
        if counts.missing:
            raise ConfigError(f"attribute {name!r}: {values[0]!r} means that there is no value: leave it out")
        if counts.dropped:
            raise ConfigError(f"attribute {name!r} has room for {attribute.slots} values, but {len(values)} are given")
    ids = [ids[0] for ids, _ in encoded.values()]
    return np.concatenate(ids) if ids else np.zeros(0, dtype=np.int64)


def _column(attribute: FittedAttribute, values: Sequence[str]) -> pa.Array:
    if attribute.spec.takes_several:
        return pa.array([list(values)], type=pa.list_(pa.string()))
    if len(values) > 1:
        raise ConfigError(f"attribute {attribute.name!r} has one value for each row, but {len(values)} are given")
    return pa.array([values[0] if values else None], type=pa.string())
