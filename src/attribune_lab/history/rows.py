"""Histories: the training rows of each value, of which some are read in front of a text, each as "text → label"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from attribune.core.arrays import Array
from attribune.core.files import replace_file
from attribune.core.hashing import text_numbers
from attribune.data.memory import Memory
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError, ModelFolderError, RowError
from attribune.schema import Schema, canonical
from attribune.schema.columns import Table, column_batches
from attribune.schema.schema import Revision
from attribune.schema.times import read_moment
from attribune_lab.history.method import History
from attribune_lab.history.vectors import FrozenVectors

_ROWS, _VECTORS = "history.parquet", "history.safetensors"
_NOW = np.inf


@dataclass(frozen=True, kw_only=True)
class Histories(Memory):
    """The rows that can be read in front of others.

    Args:
        texts: (n,) and `labels` as they are read.
        attribute_ids: (n, slots).
        order: (n,) times, numbers or microseconds since 1970; or (n, H), sentence vectors.
        vectors: computes those of other texts; needed unless there is a column of times.
    """

    files: ClassVar[tuple[str, ...]] = (_ROWS, _VECTORS)

    config: History
    schema: Schema
    texts: list[str]
    labels: list[str]
    attribute_ids: npt.NDArray[np.int64]
    order: Array
    vectors: FrozenVectors | None = None

    @classmethod
    def empty(cls, model: Any, *, backbone: str | Path | None = None) -> Self:
        """Return histories of a model without rows; see `Memory.empty`."""
        config = model.method_config
        vectors = FrozenVectors(model, backbone=backbone) if config.time is None else None
        return cls.of_none(config, model.schema, vectors=vectors)

    @classmethod
    def of_none(cls, config: History, schema: Schema, *, vectors: FrozenVectors | None = None) -> Self:
        """Return histories without rows, to which `added` adds some."""
        nothing = np.zeros((0, schema.slots), dtype=np.int64)
        return cls(
            config=config,
            schema=schema,
            texts=[],
            labels=[],
            attribute_ids=nothing,
            order=np.zeros(0),
            vectors=vectors,
        )

    def added(
        self, table: Table, *, text: TextInput, labels: Sequence[str], missing: Sequence[str] = (), first_id: int = 1
    ) -> Self:
        """Return these and the rows of a table that have a value of the attribute, and a label.

        Rows with a value of any attribute that the schema does not list could not be forgotten, and are left out.

        Args:
            labels: the columns of the labels; the names of several stand in front of them.
            missing: texts that mean no label.
            first_id: rows with a value of the attribute of a smaller id are left out.

        Raises:
            ConfigError: for similar texts without `vectors`, or without a pretrained backbone.
            DataError: for a missing column, or a time that cannot be read.
        """
        time = self.config.time
        if time is None and self.vectors is None:
            raise ConfigError("similar texts are found by their vectors: give vectors, or name a column of times")
        is_number = self.has_numbers if len(self) else None
        names = [*text.names, *labels, *self.schema.sources, *(() if time is None else (time,))]
        parts = [self] if len(self) else []
        for first, columns in column_batches(table, list(dict.fromkeys(names))):
            ids = self.schema.encode({name: columns[name] for name in self.schema.sources}, first_row=first)[0]
            told = _label_texts(columns, labels, missing)
            of_attribute = ids[:, self.columns]
            is_known = ((of_attribute > 0) & (of_attribute < first_id)).any(axis=1)
            usable = (of_attribute > 0).any(axis=1) & ~is_known & np.array(told, dtype=bool)
            for unknown in self.schema.unknown({name: columns[name] for name in self.schema.sources}).values():
                usable &= [not values for values in unknown]
            index = np.flatnonzero(usable)
            texts = text.read_all(columns, first_row=first)
            if time is not None:
                cells = columns[time].to_pylist()
                is_number = _reads_numbers(cells) if is_number is None else is_number
                order = read_times(cells, time, first, is_number=is_number, needed=True)[index]
            else:
                assert self.vectors is not None
                order = self.vectors.of_texts([texts[row] for row in index]).astype(np.float16)
            told, texts = [told[row] for row in index], [texts[row] for row in index]
            parts.append(replace(self, texts=texts, labels=told, attribute_ids=ids[index], order=order))
        return self._joined(parts) if parts else self

    def _joined(self, parts: Sequence[Self]) -> Self:
        return replace(
            self,
            texts=[text for part in parts for text in part.texts],
            labels=[label for part in parts for label in part.labels],
            attribute_ids=np.concatenate([part.attribute_ids for part in parts]),
            order=np.concatenate([part.order for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def attribute(self) -> str:
        """The attribute whose values have histories."""
        return self.config.attribute_of(self.schema)

    @property
    def columns(self) -> slice:
        """The columns of `attribute_ids` that are of the attribute."""
        return self.schema[self.attribute].columns

    @property
    def has_numbers(self) -> bool:
        """Whether times are numbers, not dates."""
        return self.order.dtype.kind == "f"

    def take(self, rows: npt.NDArray[np.bool_]) -> Self:
        """Select rows by a mask."""
        index = np.flatnonzero(rows)
        return replace(
            self,
            texts=[self.texts[row] for row in index],
            labels=[self.labels[row] for row in index],
            attribute_ids=self.attribute_ids[index],
            order=self.order[index],
        )

    def revised(self, revision: Revision) -> Self:
        """Return the histories with other values: the rows of those taken away, of whatever attribute, are gone."""
        ids, stays = self.attribute_ids.copy(), np.ones(len(self), dtype=bool)
        for name, origins in revision.ids.items():
            attribute = self.schema[name]
            moved = np.zeros(attribute.size, dtype=np.int64)
            moved[origins[origins > 0]] = np.flatnonzero(origins > 0)
            old = self.attribute_ids[:, attribute.columns]
            ids[:, attribute.columns] = moved[old]
            stays &= ((old == 0) | (moved[old] > 0)).all(axis=1)
        return replace(self, schema=revision.schema, attribute_ids=ids).take(stays)

    def moved_to(self, schema: Schema) -> Self:
        """Return the histories under a schema with the same ids, and more, in perhaps more columns."""
        ids = np.zeros((len(self), schema.slots), dtype=np.int64)
        for attribute in self.schema:
            start, old = schema[attribute.name].columns.start, self.attribute_ids[:, attribute.columns]
            ids[:, start : start + old.shape[1]] = old
        return replace(self, schema=schema, attribute_ids=ids)

    @cached_property
    def marks(self) -> npt.NDArray[np.uint64]:
        """(n,) a hash of each text."""
        return text_numbers(self.texts)

    @cached_property
    def _rows(self) -> Mapping[int, npt.NDArray[np.int64]]:
        """The rows of each id of the attribute."""
        ids = self.attribute_ids[:, self.columns]
        rows = np.repeat(np.arange(len(self)), ids.shape[1])
        flat = ids.reshape(-1)
        order = np.argsort(flat, kind="stable")
        starts = np.searchsorted(flat[order], np.arange(1, flat.max(initial=0) + 2))
        return {value: rows[order[start:end]] for value, (start, end) in enumerate(pairwise(starts), start=1)}

    def nearest(self, attribute_ids: npt.NDArray[np.int64], *, mark: int, query: Any) -> list[int]:
        """Return at most k rows that are read in front of a text, the nearest last.

        Args:
            attribute_ids: (slots,) of the text's row; the rows have one of its values.
            mark: of the text; rows with the same text are left out.
            query: time of the row, before which the rows are, or vector of the text, to which they are similar.
        """
        values = [int(value) for value in np.unique(attribute_ids[self.columns]) if value > 0]
        of_values = [self._rows[value] for value in values if value in self._rows]
        if not of_values:
            return []
        rows = of_values[0] if len(of_values) == 1 else np.unique(np.concatenate(of_values))
        rows = rows[self.marks[rows] != np.uint64(mark)]
        if self.config.time is not None:
            rows = rows[self.order[rows] < query]
            near = self.order[rows]
        else:
            near = self.order[rows].astype(np.float32) @ query
        return [int(row) for row in rows[np.argsort(near, kind="stable")[-self.config.k :]]]

    def save(self, folder: Path) -> tuple[str, ...]:
        """Write the rows into a model's folder; returns the names of the files."""
        columns: dict[str, Any] = {
            "text": pa.array(self.texts, pa.string()),
            "label": pa.array(self.labels, pa.string()),
        }
        columns["attribute_ids"] = pa.array(self.attribute_ids.tolist(), pa.list_(pa.int64()))
        names = self.files if self.config.time is None else (_ROWS,)
        if self.config.time is not None:
            columns["time"] = pa.array(self.order)
        else:
            replace_file(folder / _VECTORS, save({"vectors": np.ascontiguousarray(self.order)}))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink)
        replace_file(folder / _ROWS, sink.getvalue().to_pybytes())
        return names

    def loaded(self, folder: Path, schema: Schema) -> Self | None:
        """Read what `save` wrote; None where it wrote nothing.

        Raises:
            ModelFolderError: for a file that is missing or damaged, or does not fit the others.
        """
        path = folder / _ROWS
        if not path.is_file():
            return None
        try:
            table = pq.read_table(path)
            ids = np.array(table["attribute_ids"].to_pylist(), dtype=np.int64).reshape(len(table), -1)
            order = load_file(folder / _VECTORS)["vectors"] if self.config.time is None else table["time"].to_numpy()
            texts, labels = table["text"].to_pylist(), table["label"].to_pylist()
        except (pa.ArrowException, SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise ModelFolderError(f"{path}: the histories cannot be read ({error}): copy the folder again") from error
        ids = ids if len(ids) else np.zeros((0, schema.slots), dtype=np.int64)
        sizes = np.array([one.size for one in schema for _ in range(one.columns.stop - one.columns.start)])
        if ids.shape[1:] != sizes.shape or (ids < 0).any() or (ids >= sizes).any() or len(order) != len(ids):
            raise ModelFolderError(
                f"{path}: has rows of other values than the schema: the files come from two different saves; copy the "
                "folder again"
            )
        return replace(self, schema=schema, texts=texts, labels=labels, attribute_ids=ids, order=order)

    @classmethod
    def written_texts(cls, folder: Path) -> Iterator[tuple[Path, str]]:
        """Yield the file of the rows, and their texts."""
        if (path := folder / _ROWS).is_file():
            yield path, "\n".join(map(str, pq.read_table(path, columns=["text"])["text"]))

    def note(self) -> str:
        """Say how many rows are stored, and what for."""
        return (
            f"history: texts and labels of {len(self):,} training rows are stored with the model, to be read in front "
            f"of texts of the same {self.attribute!r}"
        )

    def to(self, device: Any) -> None:
        """Compute vectors on another device."""
        if self.vectors is not None:
            self.vectors.to(device)


def _label_texts(columns: Mapping[str, pa.Array], names: Sequence[str], missing: Sequence[str]) -> list[str]:
    """Return the labels of rows as texts; those of several columns have their names before them."""
    cells = [[_label_text(value) for value in columns[name].to_pylist()] for name in names]
    several = len(names) > 1
    return [
        ", ".join(
            f"{name}: {label}" if several else label
            for name, label in zip(names, row, strict=True)
            if label and label not in missing
        )
        for row in zip(*cells, strict=True)
    ]


def _label_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_label_text(one) for one in value)
    if isinstance(value, float) and np.isfinite(value):
        value = float(f"{value:.4g}")
    return canonical(value) or ""


def _reads_numbers(cells: Sequence[Any]) -> bool:
    first = next((text for text in map(canonical, cells) if text is not None), "")
    return read_moment(first, numeric=True) is not None


def read_times(cells: Sequence[Any], name: str, first_row: int, *, is_number: bool, needed: bool) -> Array:
    """Read times; one that is missing is now."""
    times: list[float | int] = []
    for row, cell in enumerate(cells, start=first_row):
        try:
            text = canonical(cell)
        except DataError as error:
            raise RowError(f"column {name!r}, ", row, f": {error}") from error
        moment = None if text is None else read_moment(text, numeric=is_number)
        if moment is None and (text is not None or needed):
            kind = "a number" if is_number else "an ISO date such as 2024-05-31"
            raise RowError(f"column {name!r}, ", row, f": the time {text!r} is not {kind}: correct it")
        times.append(_NOW if moment is None else moment)
    return np.array(times, dtype=np.float64 if is_number or not needed else np.int64)
