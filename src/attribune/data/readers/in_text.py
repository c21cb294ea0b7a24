"""Texts with the values of their rows in front of them, as ids.

The values are written as they are in the table, whether they are known or not. Where the ids of a row's attributes
change later, because attributes are hidden or those of another value are asked for, the text is encoded again behind
what they stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from attribune.core.arrays import IntArray
from attribune.core.door import as_argument
from attribune.data.id_lists import numbered
from attribune.data.readers.base import Pieces, Reader, Reading, TextRows
from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import content_ids
from attribune.errors import ConfigError
from attribune.findings import Finding
from attribune.schema import Schema
from attribune.schema.attributes import FittedAttribute
from attribune.schema.columns import require_columns
from attribune.tasks.inputs import InputSettings

_LOOKED_AT = 1_000  # the most frequent values of an attribute, which stand for all
Values = tuple[tuple[str, ...], ...]
"""The values of each attribute in a row."""


@dataclass(frozen=True, kw_only=True)
class WrittenRow:
    """The ids of a row's text behind its values.

    Attributes:
        ids: of both, special tokens included.
        written: the values among them.
        values: those that the row has, less what was hidden since.
        cells: of the columns of the text.
    """

    ids: list[int]
    written: Values
    values: Values
    cells: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class InTextRows(TextRows):
    """Rows whose values are in front of their texts.

    Attributes:
        own_ids: (rows, slots) ids of the attributes whose values are `WrittenRow.values`.
        reader: which encoded the rows.
        text: the columns of the texts.
        schema: the attributes.
    """

    inputs: Sequence[WrittenRow]  # type: ignore[assignment]
    own_ids: IntArray
    reader: InTextReader = field(repr=False)
    text: TextInput
    schema: Schema

    _by_row: ClassVar[tuple[str, ...]] = (*TextRows._by_row, "own_ids")

    def hide_attributes(self, columns: Iterable[slice] = (slice(None),)) -> Self:
        """Return the same rows with every attribute missing, or some; values that have no id are hidden, too."""
        columns = list(columns)
        is_hidden = np.zeros(self.schema.slots, dtype=bool)
        for some in columns:
            is_hidden[some] = True
        stays = [not is_hidden[attribute.columns].all() for attribute in self.schema]
        inputs = [replace(row, values=_kept(row.values, stays)) for row in self.inputs]
        return replace(super().hide_attributes(columns), inputs=inputs)

    def text_numbers(self) -> IntArray:
        """Number the distinct texts in their order, whatever is written in front of them."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        texts = self.text.read_rows(_cells_of(self.inputs, self.text))
        return numbered(texts, count=len(texts))

    def values(self) -> list[Values]:
        """Return the values of each row: its own, or those of the ids that took their place."""
        found = [row.values for row in self.inputs]
        for row in np.flatnonzero((self.attribute_ids != self.own_ids).any(axis=1)):
            ids, own = self.attribute_ids[row], self.own_ids[row]
            found[row] = tuple(
                values
                if attribute.name not in self.reader.names_in(self.schema)
                or (ids[attribute.columns] == own[attribute.columns]).all()
                else _values_of(attribute, ids[attribute.columns])
                for attribute, values in zip(self.schema, found[row], strict=True)
            )
        return found

    def pieces(self) -> Pieces:
        """Return the texts behind the values of their rows, as these are now."""
        wanted = self.values()
        inputs = [row.ids for row in self.inputs]
        starts = None if self.segment_starts is None else self.segment_starts.copy()
        changed = [place for place, row in enumerate(self.inputs) if row.written != wanted[place]]
        if changed:
            columns = _cells_of([self.inputs[place] for place in changed], self.text)
            before = self.reader.before([wanted[place] for place in changed], self.schema)
            again = self.reader.encoder.rows(self.text, columns, before=before)
            for place, ids in zip(changed, again.inputs, strict=True):
                inputs[place] = ids
            if starts is not None and again.segment_starts is not None:
                starts[changed] = again.segment_starts
        return self.as_kind(TextRows, inputs=inputs, segment_starts=starts).pieces()


def _kept(values: Values, stays: Iterable[bool]) -> Values:
    """Return values without those of the attributes that do not stay."""
    return tuple(own if stay else () for own, stay in zip(values, stays, strict=True))


def _cells_of(rows: Iterable[WrittenRow], text: TextInput) -> dict[str, list[Any]]:
    """Return the columns of the texts of rows."""
    return dict(zip(text.names, map(list, zip(*(row.cells for row in rows), strict=True)), strict=True))


def _values_of(attribute: FittedAttribute, ids: IntArray) -> tuple[str, ...]:
    """Return the values of ids in the vocabulary; of a number, what its bin is called."""
    return tuple(attribute.values[int(one) - 1] for one in ids if one > 0)


class InTextReader(Reader):
    """Makes ids of texts, and of the values in front of them.

    The values take at most half the window, and the text has the rest.

    Args:
        encoder: of the texts.
        names: of the attributes that are written; None for all.
        dropout: probability that one of them is left out of a training row.

    Raises:
        ConfigError: for a window of chunks.
    """

    name: ClassVar[str] = "in-text"

    def __init__(self, encoder: TextEncoder, *, names: Collection[str] | None = None, dropout: float = 0.0) -> None:
        self.encoder, self.window, self.names, self.dropout = encoder, encoder.window, names, dropout
        self._chance: np.random.Generator | None = None  # of training rows
        if self.window.chunk is not None:
            raise ConfigError(_no_chunks(str(self.window)))

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        return cls(TextEncoder.of(reading, text), names=reading.written, dropout=reading.written_dropout)

    @classmethod
    def refusal(cls, settings: InputSettings) -> str | None:
        """Return why no values can be written in front of the texts of a recipe; None if they can."""
        if settings.is_chunked:
            return _no_chunks(settings.window)
        if not settings.is_pretrained:
            return (
                f"the backbone {settings.backbone!r} knows the words of the training texts alone, and written values "
                f"are none of them: choose a pretrained backbone, or {_otherwise()}"
            )
        return None

    def for_training(self, *, seed: int) -> InTextReader:
        """Return a reader that leaves values out at random, as other methods drop attributes."""
        reader = InTextReader(self.encoder, names=self.names, dropout=self.dropout)
        reader._chance = np.random.default_rng(seed)
        return reader

    def names_in(self, schema: Schema) -> Collection[str]:
        """Return the names of the attributes of a schema that are written."""
        return schema.names if self.names is None else self.names

    def kept_texts(self, text: TextInput, table: Any) -> list[str] | None:
        """Return the part of the text of each row that a window without values keeps; see `Reader.kept_texts`."""
        return self.encoder.kept_texts(text, table)

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> TextRows:
        """Encode the texts of rows alone; errors are those of `TextEncoder.rows`."""
        return self.encoder.rows(text, columns, first_row=first_row)

    def encode(
        self, columns: Mapping[str, Sequence[Any]], schema: Schema, *, text: TextInput, first_row: int = 1
    ) -> InTextRows:
        """Encode the rows of some columns by name, behind the values of their attributes.

        Raises:
            DataError: naming column and row of a value that cannot be used.
            ConfigError: for an attribute whose values are hashed.
        """
        require_columns(list(columns), (*text.names, *schema.sources))
        names = self.names_in(schema)
        _check_written(schema, names)
        sources = {name: columns[name] for name in schema.sources}
        values: list[Values] = schema.written(sources, names=names, first_row=first_row)
        values = values or [()] * len(columns[text.names[0]])
        if self._chance is not None:
            drawn = self._chance.random((len(values), len(schema))) >= self.dropout
            values = list(map(_kept, values, drawn))
        rows = self.encoder.rows(text, columns, first_row=first_row, before=self.before(values, schema))
        rows = self._with_attributes(rows, columns, schema, first_row)
        cells = zip(*(columns[name] for name in text.names), strict=True)
        inputs = [
            WrittenRow(ids=ids, written=own, values=own, cells=row)
            for ids, own, row in zip(rows.inputs, values, cells, strict=True)
        ]
        return rows.as_kind(
            InTextRows, inputs=inputs, own_ids=rows.attribute_ids, reader=self, text=text, schema=schema
        )

    def before(self, values: Sequence[Values], schema: Schema) -> list[list[int]]:
        """Return the ids in front of each row, no more than half the window."""
        most = self.window.capacity(self.encoder.special) // 2
        texts = [_as_text(row, schema.names) for row in values]
        return [ids[:most] for ids in content_ids(self.encoder.tokenizer, texts)]

    def value_notes(self, schema: Schema) -> list[Finding]:
        """Say of which attributes values have words that the tokenizer does not know."""
        found, unknown = [], self.encoder.tokenizer.unk_token_id
        for attribute in schema:
            if attribute.name not in self.names_in(schema):
                continue
            values = list(attribute.values[:_LOOKED_AT])
            count = sum(unknown in ids for ids in content_ids(self.encoder.tokenizer, values))
            if count and unknown is not None:
                found.append(Finding.of("values-unread", attribute=attribute.name, count=count, values=len(values)))
        return found

    def cut_note(self, cut: int, rows: int) -> str:
        """Say how many texts of rows were cut to the window, of which the values in front of them take a part."""
        return f"{super().cut_note(cut, rows)}; the values in front of a text take up to half the window"


def _as_text(values: Values, names: Sequence[str]) -> str:
    """Write the values of a row, as "user: u17; tags: red, blue."; nothing where there are none."""
    written = [f"{name}: {', '.join(own)}" for name, own in zip(names, values, strict=True) if own]
    return f"{'; '.join(written)}." if written else ""


def _check_written(schema: Schema, names: Collection[str]) -> None:
    for attribute in schema:
        if attribute.name in names and attribute.spec.unseen == "hash":
            raise ConfigError(
                f"values are written in front of a text, and those of {attribute.name!r} are hashed, so that none is "
                f"known by its id: leave unseen='hash' out, or {_otherwise()}"
            )


def _no_chunks(window: str) -> str:
    return (
        f"a text is read at once, behind its values, and the window is {window!r}: choose head or head+tail, or "
        f"{_otherwise()}"
    )


def _otherwise() -> str:
    return f"write no values (method in-text, {as_argument('data.written')})"
