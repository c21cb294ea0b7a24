"""Panels: what several people, or other values, would each say of a text, together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import Array
from attribune.core.door import as_call
from attribune.core.wording import counted
from attribune.data.file_options import FileOptions, Reading
from attribune.data.readers.base import EncodedRows
from attribune.data.tables import read_table
from attribune.errors import ConfigError, DataError
from attribune.metrics.distributions import disagreement
from attribune.models.predictor import Predictor
from attribune.schema.columns import Table, column_batches, column_names, whole_columns
from attribune.tasks.capabilities import PANEL, Verb, require

_ALL = "all"
_SCORES = 8192  # rows that are scored at once, of so many texts as make them with all members
_DISSENTERS = 10  # members who are named of a text


@dataclass(frozen=True, kw_only=True)
class Panel:
    """J members, each with values of some attributes; the other attributes are those of a text's own row.

    Args:
        names: (J,) of the members.
        ids: (J, slots).
        columns: (slots,) whether the slot has the member's id rather than that of the text's row.
    """

    names: tuple[str, ...]
    ids: npt.NDArray[np.int64]
    columns: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, predictor: Predictor, members: Any, *, limit: int | None = None, **reading: Unpack[Reading]) -> Self:
        """Make a panel for the attributes that a model reads.

        Args:
            members: ``all``, for every value of the only attribute; the name of an attribute, for every value of it; or
                a table with a row for each member, anything `read_table` takes, whose columns are attributes, and
                perhaps ``name``.
            limit: maximum number of values that are members, from the first of the list; None for all.
            **reading: how a table of members is read, as in `read_table`.

        Raises:
            ConfigError: for a model or a task without panels, or values that are no list.
            DataError: for a table without members, or without a column of the model.
        """
        check_panel(predictor)
        schema = predictor.schema
        listed = [attribute.name for attribute in schema if attribute.spec.lists_values]
        if isinstance(members, str) and (members == _ALL or members in schema.names):
            name = listed[0] if members == _ALL and len(listed) == 1 else members
            if name not in listed:
                raise ConfigError(
                    f"the panel is {name!r}: give one of the attributes whose values are a list "
                    f"({', '.join(listed) or 'none'}), or a table with a member in each row"
                )
            attribute = schema[name]
            if limit is not None and limit < 1:
                raise ConfigError(f"limit is {limit}: give at least 1, or None for all values")
            names = tuple(attribute.values[:limit])
            if not names:
                raise ConfigError(f"the panel is {name!r}, of which the model knows no value: add one, or give a table")
            ids = np.zeros((len(names), schema.slots), dtype=np.int64)
            ids[:, attribute.columns] = attribute.ids_of_values(names)
            return cls(names=names, ids=ids, columns=_columns(predictor, [name]))
        return cls._of_table(predictor, members, FileOptions(**reading))

    @classmethod
    def _of_table(cls, predictor: Predictor, members: Any, reading: FileOptions) -> Self:
        table, schema = read_table(members, **reading.given()), predictor.schema
        source = str(members) if isinstance(members, str | Path) else "the panel"
        nested = schema.nested
        given = [
            name
            for name in schema.sources
            if name in table.column_names or set(nested.get(name, (name,))) <= {*table.column_names}
        ]
        if not given or not len(table):
            raise DataError(
                f"{source} has {counted(len(table), 'row')} and the columns {', '.join(table.column_names)}: a panel "
                f"has a row for each member, with one of the columns {', '.join(schema.sources)} at least"
            )
        cells = whole_columns(table, given)
        full = {name: cells[name] if name in given else [None] * len(table) for name in schema.sources}
        ids, report = schema.encode(full)
        attributes = [one.name for one in schema if one.column in given]
        for counts in (report.attributes[name] for name in attributes):
            if counts.unseen:
                raise DataError(
                    f"{source}: {counted(counts.unseen, 'value is', 'values are')} not in the vocabulary of the model, "
                    "which has one answer for all of these: remove these rows, or add the values with "
                    f"{as_call('enrol')}"
                )
        named = "name" if "name" in table.column_names and "name" not in schema.sources else None
        columns = [table[named]] if named else [cells[name].to_pylist() for name in given]
        names = tuple(
            " ".join(str(cell) for cell in row if cell is not None) or "unknown" for row in zip(*columns, strict=True)
        )
        return cls(names=names, ids=ids, columns=_columns(predictor, attributes))

    def scores(self, predictor: Predictor, rows: EncodedRows) -> Array:
        """Return the logits (n, J, outputs) of encoded rows for each member."""
        n, J = len(rows), len(self)
        # Members one after the other: the weights of a member are generated once for the texts of a batch.
        repeated = rows.take(np.tile(np.arange(n), J))
        ids = np.where(self.columns, np.repeat(self.ids, n, axis=0), repeated.attribute_ids)
        scores = predictor.score(repeated.with_attribute_ids(ids))
        return scores.reshape(J, n, predictor.task.outputs).transpose(1, 0, 2)

    def ask(self, predictor: Predictor, rows: EncodedRows) -> dict[str, Any]:
        """Return what the panel says of encoded rows, by column name; large panels read few texts at a time."""
        step = max(1, _SCORES // len(self))
        starts = range(0, len(rows), step) or (0,)
        parts = [rows.take(slice(start, start + step)) for start in starts]
        each = [self.opinions(predictor, self.scores(predictor, part)) for part in parts]
        return {name: _joined([one[name] for one in each]) for name in each[0]}

    def predict(self, predictor: Predictor, table: Table) -> dict[str, Any]:
        """Return what the panel says of the texts of a table, by column name; see `opinions`.

        The columns of attributes that the members have may be missing.

        Raises:
            DataError: naming the column that is missing, or column and row of a value that cannot be used.
        """
        return self.ask(predictor, self.encode(predictor, table))

    def encode(
        self,
        predictor: Predictor,
        table: Table,
        *,
        first_row: int = 1,
        source: str = "the input",
        cells: Mapping[str, str] | None = None,
    ) -> EncodedRows:
        """Encode the texts, with the attributes that the members do not have.

        Args:
            cells: what stands in the columns of those that they have; by default nothing.
        """
        cells = cells or {}
        attributes = [one for one in predictor.schema if self.columns[one.columns].all()]
        read = {one.column for one in predictor.schema if one not in attributes}
        taken = [name for name in predictor.schema.sources if name not in read]
        replaced = [(one.column, *one.spec.columns) for one in predictor.schema if one.column in taken]
        given = {*chain(*replaced)}
        known = [name for name in column_names(table) if name not in given]
        predictor.check_columns([*known, *taken], source=source)
        names = [name for name in predictor.columns_in(table) if name not in given]
        parts = []
        for row, columns in column_batches(table, names, first_row=first_row):
            rows = len(next(iter(columns.values())))
            own = {name: [cells.get(name)] * rows for name in taken}
            parts.append(predictor.encode_rows(dict(columns) | own, first_row=row))
        if not parts:
            return predictor.encode_rows({name: [] for name in predictor.columns})
        encoded = EncodedRows.concat(parts)
        return (
            encoded
            if encoded.report is None
            else replace(encoded, report=encoded.report.without([one.name for one in attributes]))
        )

    def opinions(self, predictor: Predictor, logits: Array) -> dict[str, Any]:
        """Turn logits (n, J, outputs) into columns.

        ``prediction`` is the most probable answer of the mean distribution ``probability_*``, ``share_*`` the share of
        the members whose own most probable answer it is, ``disagreement`` how much the members' distributions differ,
        ``doubt`` how undecided the model is for each of them (both in nats, as `attribune.metrics.distributions` has
        them), and ``dissenters`` up to ten members with another answer, those who are farthest first. Ordered answers
        have ``expected``, the mean of the expected numbers, and ``spread``, their standard deviation; a regression has
        ``prediction`` and ``spread``.
        """
        task, (n, J, outputs) = predictor.task, logits.shape
        flat = task.codec.answers(logits.reshape(n * J, outputs))
        if flat is None:
            numbers = np.asarray(task.decode(logits.reshape(n * J, outputs)).predictions["prediction"]).reshape(n, J)
            return {"prediction": numbers.mean(axis=1), "spread": numbers.std(axis=1)}
        p = flat.reshape(n, J, flat.shape[1])
        answers = task.answer_names
        mean, own = p.mean(axis=1), p.argmax(axis=2)
        best = mean.argmax(axis=1)
        people, doubt = disagreement(p)
        found: dict[str, Any] = {"prediction": [answers[answer] for answer in best]}
        if task.codec.positions is not None:
            expected = p @ task.codec.positions
            found |= {"expected": expected.mean(axis=1), "spread": expected.std(axis=1)}
        found |= {f"probability_{answer}": mean[:, place] for place, answer in enumerate(answers)}
        found |= {f"share_{answer}": (own == place).mean(axis=1) for place, answer in enumerate(answers)}
        farthest = np.take_along_axis(p, best[:, None, None], axis=2)[:, :, 0].argsort(axis=1, kind="stable")
        dissenters = [
            [self.names[member] for member in order if row[member] != answer][:_DISSENTERS]
            for order, row, answer in zip(farthest, own, best, strict=True)
        ]
        return found | {"disagreement": people, "doubt": doubt, "dissenters": dissenters}


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


def check_panel(predictor: Predictor, *, verb: Verb = PANEL) -> None:
    """Refuse a model without attributes, and a task without answers whose probabilities could be compared.

    Raises:
        ConfigError: saying which it is.
    """
    if not predictor.reads_attributes or not len(predictor.schema):
        raise ConfigError(
            f"{verb.what} is for models that read attributes, and this one reads none: all values are the same to it"
        )
    require(predictor.task, verb)


def _columns(predictor: Predictor, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    columns = np.zeros(predictor.schema.slots, dtype=bool)
    for name in names:
        columns[predictor.schema[name].columns] = True
    return columns
