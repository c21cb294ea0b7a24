"""The schema: the attributes of a table, their vocabularies with training counts, and the slots of `attribute_ids`.

    schema = Schema.fit(train, [Categorical("user"), MultiLabel("tags", separator="|"), Numeric("year")])
    attribute_ids, report = schema.encode(table)

Id 0 means missing, unknown or dropped, and contributes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from attribune.errors import ConfigError, ModelFolderError
from attribune.json_file import read_json, write_json
from attribune.schema.attributes import (
    KINDS,
    AttributeCounts,
    FittedAttribute,
    Kind,
    MultiLabel,
    Numeric,
)
from attribune.schema.columns import MISSING, Table, canonical, column_batches
from attribune.schema.fitting import AttributeFit, AttributeFitter, bin_names
from attribune.schema.vocabulary import Vocabulary

__all__ = ["EncodingReport", "FitReport", "Schema"]

_FORMAT = "attribune-schema"
_VERSION = 1
_LISTED = 100_000  # values in the JSON file itself
_VALUES = ".values"  # in the name of a file of more


@dataclass(frozen=True)
class EncodingReport:
    """What encoding did to each attribute; reports of several batches add up with `+`."""

    attributes: Mapping[str, AttributeCounts]

    def __add__(self, other: EncodingReport) -> EncodingReport:
        empty = AttributeCounts()
        names = dict.fromkeys([*self.attributes, *other.attributes])
        return EncodingReport(
            {name: self.attributes.get(name, empty) + other.attributes.get(name, empty) for name in names}
        )

    def lines(self) -> list[str]:
        """Say in one line per attribute what is not zero."""
        words = {
            "missing": "rows without a value",
            "unseen": "values not in the vocabulary",
            "trimmed": "values trimmed of spaces",
            "dropped": "values dropped for want of slots",
        }
        lines = []
        for name, counts in self.attributes.items():
            parts = [f"{text}: {getattr(counts, field):,}" for field, text in words.items() if getattr(counts, field)]
            if parts:
                lines.append(f"attribute {name!r} in {counts.rows:,} rows: {'; '.join(parts)}")
        return lines


@dataclass(frozen=True)
class FitReport:
    """What fitting found in each attribute, and what it left out."""

    attributes: Mapping[str, AttributeFit]

    def lines(self) -> list[str]:
        """Say in one line per attribute what was kept and left out."""
        words = {
            "rare": "values below min_count left out",
            "beyond_cap": "values beyond max_values left out",
            "left_out_cells": "cells with a value left out",
            "shared": "values that share a bucket with another",
            "missing": "rows without a value",
            "trimmed": "values trimmed of spaces",
        }
        lines = []
        for name, fit in self.attributes.items():
            parts = [f"{text}: {getattr(fit, field):,}" for field, text in words.items() if getattr(fit, field)]
            found = f"attribute {name!r} in {fit.rows:,} rows: values found: {fit.found:,}; ids: {fit.kept:,}"
            lines.append("; ".join([found, *parts]))
        return lines


class Schema:
    """The fitted attributes in order, and where each one's slots are.

    Attributes:
        attributes: the fitted attributes; `len(schema)`, `schema["user"]` and iteration work too.
        missing: texts that mean no value.
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
        self.attributes = tuple(attributes)
        self.missing = tuple(missing)
        self.fit_report = fit_report
        self.slots = sum(attribute.slots for attribute in self.attributes)
        self._missing = frozenset(text for text in map(canonical, missing) if text is not None)
        self._by_name = {attribute.name: attribute for attribute in self.attributes}

    @classmethod
    def fit(cls, table: Table, attributes: Sequence[Kind], *, missing: Sequence[str] = MISSING) -> Self:
        """Learn the vocabularies; give it the training rows only.

        Args:
            table: a Dataset, Arrow table, DataFrame, or columns by name; read in batches.
            attributes: `Categorical`, `MultiLabel` or `Numeric`, in the order of their slots.
            missing: texts that mean no value.

        Raises:
            DataError: for a missing column, or a value that does not fit its attribute.
            ConfigError: for an attribute given twice, or something that is not an attribute.
        """
        missing = _checked_missing(missing)
        names = _checked_names(attributes)
        known = frozenset(text for text in map(canonical, missing) if text is not None)
        fitters = {spec.name: AttributeFitter(spec, missing=known) for spec in attributes}
        for first_row, columns in column_batches(table, names):
            for name, fitter in fitters.items():
                fitter.add(columns[name], first_row=first_row)
        fitted: list[FittedAttribute] = []
        found: dict[str, AttributeFit] = {}
        for name, fitter in fitters.items():
            attribute, found[name] = fitter.finish(start=sum(done.slots for done in fitted))
            fitted.append(attribute)
        return cls(fitted, missing=missing, fit_report=FitReport(found))

    def encode(self, table: Table, *, first_row: int = 1) -> tuple[npt.NDArray[np.int64], EncodingReport]:
        """Turn the attribute columns of a table into `attribute_ids` of shape (rows, slots), and say what was done.

        Args:
            table: a Dataset, Arrow table, DataFrame, or columns by name; other columns are not read.
            first_row: number of the table's first row in its source, for messages.

        Raises:
            DataError: for a missing column, a value that does not fit its attribute, or one refused as unseen.
        """
        report = EncodingReport({name: AttributeCounts() for name in self.names})
        if not self.attributes:
            return np.zeros((_rows(table), 0), dtype=np.int64), report
        blocks = [np.zeros((0, self.slots), dtype=np.int64)]
        for start, columns in column_batches(table, self.names, first_row=first_row):
            parts = []
            counts = {}
            for attribute in self.attributes:
                ids, counts[attribute.name] = attribute.encode(
                    columns[attribute.name], missing=self._missing, first_row=start
                )
                parts.append(ids)
            blocks.append(np.concatenate(parts, axis=1))
            report += EncodingReport(counts)
        return np.concatenate(blocks), report

    def unknown(self, table: Table, *, first_row: int = 1) -> dict[str, list[list[str]]]:
        """For each attribute, the values of each row that are not in its vocabulary.

        Args:
            table: as for `encode`.
            first_row: number of the table's first row in its source, for messages.

        Raises:
            DataError: for a missing column, or a value that does not fit its attribute.
        """
        found: dict[str, list[list[str]]] = {name: [] for name in self.names}
        for start, columns in column_batches(table, self.names, first_row=first_row):
            for attribute in self.attributes:
                found[attribute.name] += attribute.unknown(
                    columns[attribute.name], missing=self._missing, first_row=start
                )
        return found

    def grown(self, other: Schema) -> Schema:
        """The same with the values of another schema of these attributes, as ids after its own; counts add up.

        Numbers keep the bins of this one, hashed values their buckets.

        Raises:
            ConfigError: for an attribute that the other one lacks, or that is hashed in another way there.
        """
        attributes: list[FittedAttribute] = []
        for attribute in self.attributes:
            start = sum(done.slots for done in attributes)
            attributes.append(attribute.grown(other[attribute.name], start=start))
        return Schema(attributes, missing=self.missing, fit_report=other.fit_report)

    def means_missing(self, text: str | None) -> bool:
        """Whether a canonical text stands for no value."""
        return text is None or text in self._missing

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes, in order."""
        return tuple(self._by_name)

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[FittedAttribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> FittedAttribute:
        if name not in self._by_name:
            raise ConfigError(f"the schema has no attribute {name!r} (attributes: {', '.join(self.names) or 'none'})")
        return self._by_name[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain JSON values."""
        return {**self._head(), "attributes": [_attribute_to_dict(attribute) for attribute in self.attributes]}

    def _head(self) -> dict[str, Any]:
        return {"format": _FORMAT, "version": _VERSION, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: Path | None = None) -> Self:
        """Build the schema that `to_dict` returned.

        Args:
            data: what it returned, or what a file of `save` holds.
            folder: of that file.

        Raises:
            ModelFolderError: for data that is not a schema, is of another version, or contradicts itself.
        """
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            raise ModelFolderError(f"not a schema: 'format' must be {_FORMAT!r}")
        if data.get("version") != _VERSION:
            raise ModelFolderError(
                f"schema version {data.get('version')!r}, but this release reads version {_VERSION}: use the release "
                "that wrote it"
            )
        attributes: list[FittedAttribute] = []
        try:
            missing = _checked_missing(data["missing"])
            for entry in data["attributes"]:
                start = sum(done.slots for done in attributes)
                attributes.append(_attribute_from_dict(entry, start=start, folder=folder))
            _checked_names([attribute.spec for attribute in attributes])
        except KeyError as error:
            raise ModelFolderError(f"the schema lacks {error}") from error
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelFolderError(f"the schema contradicts itself: {error}") from error
        return cls(attributes, missing=missing)

    def save(self, path: str | Path) -> None:
        """Write the schema as a JSON file, and a vocabulary of more than 100,000 values as an Arrow file beside it.

        Raises:
            ModelFolderError: when a file cannot be written; what was there before is still whole.
        """
        path = Path(path)
        before = list(path.parent.glob(f"{path.stem}{_VALUES}-*.arrow"))
        data = {**self._head(), "attributes": [_saved_attribute(attribute, path) for attribute in self.attributes]}
        write_json(path, data, what="schema")
        named = {entry.get("values_file") for entry in data["attributes"]}
        for file in before:
            if file.name not in named:
                file.unlink(missing_ok=True)

    @staticmethod
    def files_beside(path: str | Path) -> list[str]:
        """Names of the files that belong to a schema file: those of long vocabularies."""
        data = read_json(path, what="schema")
        entries = data.get("attributes") if isinstance(data, Mapping) else None
        named = [entry.get("values_file") for entry in entries or () if isinstance(entry, Mapping)]
        return [name for name in named if isinstance(name, str)]

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


def _rows(table: Table) -> int:
    if isinstance(table, Mapping):
        return max((len(column) for column in table.values()), default=0)
    return len(table)


def _checked_missing(missing: Sequence[str]) -> tuple[str, ...]:
    if isinstance(missing, str) or not all(isinstance(text, str) for text in missing):
        raise ConfigError(f"missing={missing!r} must be a list of texts that mean no value, such as ['', 'n/a']")
    return tuple(missing)


def _checked_names(attributes: Sequence[Kind]) -> list[str]:
    for spec in attributes:
        if not isinstance(spec, tuple(KINDS.values())):
            raise ConfigError(
                f"{spec!r} is not an attribute: give Categorical, MultiLabel or Numeric, such as Categorical({spec!r})"
            )
    names = [spec.name for spec in attributes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"attribute {twice!r} is given twice: name each column once")
    return names


def _attribute_to_dict(attribute: FittedAttribute) -> dict[str, Any]:
    return {
        "kind": attribute.spec.kind,
        "spec": asdict(attribute.spec),
        "slots": attribute.slots,
        "values": [] if isinstance(attribute.spec, Numeric) else list(attribute.values),
        "counts": attribute.counts.tolist(),
        "edges": list(attribute.edges),
        "check": attribute.check,
    }


def _saved_attribute(attribute: FittedAttribute, path: Path) -> dict[str, Any]:
    """The same with a long list of values, and its counts, in a file beside the schema's."""
    if isinstance(attribute.spec, Numeric) or len(attribute.values) <= _LISTED:
        return _attribute_to_dict(attribute)
    try:
        file = attribute.values.write(path.parent, f"{path.stem}{_VALUES}", counts=attribute.counts[1:])
    except OSError as error:
        raise ModelFolderError(
            f"the {len(attribute.values):,} values of attribute {attribute.name!r} cannot be written to {path.parent} "
            f"({error.strerror or error}): make room, or choose a folder that you may write to"
        ) from error
    short = replace(attribute, values=Vocabulary(), counts=attribute.counts[:1])
    return {**_attribute_to_dict(short), "values_file": file.name}


def _values_in(entry: Mapping[str, Any], folder: Path | None) -> tuple[Vocabulary, npt.NDArray[np.int64]]:
    """The values and counts of an entry whose values are in a file of their own; ValueError when it is none."""
    name = entry["values_file"]
    if folder is None or not isinstance(name, str) or Path(name).name != name:
        raise ValueError(f"values_file {name!r} is not a file beside the schema's")
    try:
        values, counts = Vocabulary.read(folder / name)
    except OSError as error:
        raise ValueError(f"its values, {folder / name}, cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise ValueError(f"its values, {folder / name}, are truncated or foreign ({error})") from error
    return values, np.concatenate([np.array(entry["counts"], dtype=np.int64), counts])


def _attribute_from_dict(entry: Mapping[str, Any], *, start: int, folder: Path | None = None) -> FittedAttribute:
    """Build one attribute; anything wrong is a ValueError, TypeError or KeyError."""
    if entry["kind"] not in KINDS:
        raise ValueError(f"unknown kind of attribute {entry['kind']!r}")
    spec = KINDS[entry["kind"]](**entry["spec"])
    edges = tuple(float(edge) for edge in entry["edges"])
    if "values_file" in entry:
        values, counts = _values_in(entry, folder)
    else:
        listed = bin_names(list(edges)) if isinstance(spec, Numeric) else entry["values"]
        if not isinstance(listed, list | tuple) or not all(isinstance(value, str) and value for value in listed):
            raise ValueError(f"attribute {spec.name!r} has a value that is empty or not text")
        values, counts = Vocabulary(listed), np.array(entry["counts"], dtype=np.int64)
    size = len(values) + 1 if isinstance(spec, Numeric) or spec.unseen != "hash" else spec.buckets + 1
    _check_parts(spec, values=values, counts=counts, edges=edges, size=size)
    slots = entry["slots"]
    limit = spec.max_per_row if isinstance(spec, MultiLabel) else 1
    if not isinstance(slots, int) or not 1 <= slots <= limit:
        raise ValueError(f"attribute {spec.name!r} has {slots!r} slots, not 1 to {limit}")
    return FittedAttribute(
        spec=spec, start=start, slots=slots, values=values, counts=counts, edges=edges, check=entry["check"]
    )


def _check_parts(
    spec: Kind, *, values: Vocabulary, counts: npt.NDArray[np.int64], edges: tuple[float, ...], size: int
) -> None:
    if counts.shape != (size,) or (counts < 0).any():
        raise ValueError(f"attribute {spec.name!r} has counts of shape {counts.shape} for {size} ids, or negative ones")
    if (twice := values.repeated()) is not None:
        raise ValueError(f"attribute {spec.name!r} lists {twice!r} twice")
    if size == 1 or (values and size != len(values) + 1):
        raise ValueError(f"attribute {spec.name!r} lists {len(values)} values for {size} ids")
    ascending = all(low < high for low, high in pairwise(edges))
    if not np.isfinite(edges).all() or not ascending or (edges and not isinstance(spec, Numeric)):
        raise ValueError(f"attribute {spec.name!r} has edges that are not ascending numbers of a Numeric: {edges[:5]}")
