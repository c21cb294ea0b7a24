"""What can be given to a prediction: a text, texts, a row, rows, or a table, read as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import datasets
import numpy as np
import pandas as pd

from attribune.core.wording import counted, did_you_mean
from attribune.errors import DataError
from attribune.metrics.tables import text_cells
from attribune.schema.columns import Table, as_table, column_names, missing_column

_SHOWN = 10  # rows and columns of a table that is printed


@dataclass(frozen=True, kw_only=True)
class RowNames:
    """The columns of a model.

    Attributes:
        texts: the columns of its text.
        needed: all columns that tables must have.
        known: further columns that it may be given.
        nested: the columns of each hierarchy by its name, which stand in its place.
        words: whether a text is a list of words.
    """

    texts: tuple[str, ...]
    needed: tuple[str, ...]
    known: tuple[str, ...] = ()
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: bool = False

    @property
    def all(self) -> list[str]:
        """Every column, once."""
        read = [*self.needed, *self.known]
        return list(dict.fromkeys([*read, *(column for name in read for column in self.nested.get(name, ()))]))

    def columns(self, given: Collection[Any], names: Iterable[str] | None = None) -> list[str]:
        """Return the columns of what is needed, or of other names: of a hierarchy its own unless its name is given.

        Raises:
            DataError: for a hierarchy that is given by its name and by its columns.
        """
        found: list[str] = []
        for name in self.needed if names is None else names:
            own = self.nested.get(name, (name,))
            if name in given and (both := [column for column in own if column != name and column in given]):
                raise DataError(f"{name!r} is given, and also its column {both[0]!r}: give one of the two")
            found += [name] if name in given else own
        return list(dict.fromkeys(found))

    def require(self, given: Sequence[str], *, source: str) -> None:
        """Raise a DataError if a column is missing, naming it and the cure."""
        for name in self.columns(given):
            if name not in given:
                cure = "" if name in self.texts else "; where its values are not known, add it with empty cells"
                raise DataError(f"{missing_column(given, name, source=source)}{cure}")

    def check(self, given: Iterable[Any], *, what: str) -> None:
        """Refuse names that no attribute of the model has; DataError with the closest one."""
        attributes = [name for name in self.all if name not in self.texts]
        for name in given:
            if name not in attributes:
                raise DataError(_unknown_name(name, attributes, what=what))


@dataclass(frozen=True, kw_only=True)
class RowInput:
    """Rows as columns, and in which form predictions are to be returned.

    Attributes:
        index: that of a DataFrame.
        is_single: whether one text or one row was given.
    """

    columns: Table
    index: pd.Index | None = None
    is_single: bool = False

    @classmethod
    def read(cls, given: Any, names: RowNames, values: Mapping[str, Any]) -> RowInput:
        """Read what was given.

        Args:
            values: attributes beside a text, or beside several. Beside several texts, a list has one value for each, in
                their order; anything else is the value of all. Beside one text, a list is its value.

        Raises:
            DataError: for a name that the model does not have, rows that are no rows, or a list of another length.
        """
        found = cls._read(given, names, values)
        names.require(column_names(found.columns), source="the input")
        return found

    @classmethod
    def _read(cls, given: Any, names: RowNames, values: Mapping[str, Any]) -> RowInput:
        given = _without_series(given, names)
        is_text = isinstance(given, str) or _are_texts(given) or (bool(values) and is_list(given) and not len(given))
        if values and not is_text:
            raise DataError(
                f"{', '.join(values)} cannot be combined with rows or a table: put it into the rows, or give only a "
                "text"
            )
        if is_text:
            return cls._of_texts(given, names, values)
        if isinstance(given, list | tuple):
            return cls(columns=_columns_of_rows(given, names))
        if isinstance(given, Mapping) and _is_row(given, names):
            return cls(columns=_columns_of_rows([given], names), is_single=True)
        if isinstance(given, pd.DataFrame):
            return cls(columns=_checked_frame(given, names), index=given.index)
        if isinstance(given, Mapping | datasets.Dataset):
            return cls(columns=given)
        return cls(columns=as_table(given))

    @classmethod
    def _of_texts(cls, given: Any, names: RowNames, values: Mapping[str, Any]) -> RowInput:
        if len(names.texts) > 1:
            raise DataError(
                f"the model reads {', '.join(names.texts)}, and a text alone does not say which it is: give rows, such "
                f"as {{{names.texts[0]!r}: ..., {names.texts[1]!r}: ...}}"
            )
        names.check(values, what="the attributes given")
        texts = [given] if isinstance(given, str) else list(given)
        is_single = isinstance(given, str)
        columns: dict[str, list[Any]] = {name: [None] * len(texts) for name in names.columns(values)}
        columns |= {name: [value] if is_single else _of_each(name, value, given) for name, value in values.items()}
        columns[names.texts[0]] = [text.split() if names.words and isinstance(text, str) else text for text in texts]
        return cls(columns=columns, is_single=is_single)

    def shaped(self, columns: Mapping[str, Any]) -> Any:
        """Return predictions by column name in the form of what was given."""
        if self.index is not None:
            return pd.DataFrame({name: _cells(values) for name, values in columns.items()}, index=self.index)
        if self.is_single:
            return {name: plain_value(values[0]) for name, values in columns.items()}
        return Predictions(columns)


class Predictions(dict[str, Any]):
    """Predictions and probabilities by column name, which are printed as a table of the first rows."""

    def to_pandas(self) -> pd.DataFrame:
        """Return them as a DataFrame."""
        return pd.DataFrame({name: _cells(values) for name, values in self.items()})

    def __repr__(self) -> str:
        rows, shown = max(map(len, self.values()), default=0), list(self)[:_SHOWN]
        cells = [shown, *([_shown(self[name][row]) for name in shown] for row in range(min(rows, _SHOWN)))]
        more = [f"{rows:,} rows"] * (rows > _SHOWN) + [f"{len(self):,} columns"] * (len(self) > _SHOWN)
        return "\n".join([text_cells(cells) if shown else "no columns", *([", ".join(more)] if more else [])])

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html(max_rows=_SHOWN, max_cols=_SHOWN))


def _unknown_name(name: Any, known: Collection[str], *, what: str) -> str:
    """Return the message for a name that is not known, with the closest one."""
    hint = did_you_mean(str(name), known)
    return f"{what} have {name!r:.80}, which the model does not read{hint} (it reads: {', '.join(known) or 'nothing'})"


def _are_texts(given: Any) -> bool:
    """Whether something is a sequence of texts, of which some or all may be missing."""
    if isinstance(given, pd.Series) or (isinstance(given, np.ndarray) and given.ndim == 1):
        given = list(given)
    if not isinstance(given, list | tuple):
        return False
    if any(isinstance(one, Mapping) for one in given):
        return False
    return any(isinstance(one, str) for one in given) or (len(given) > 0 and all(map(_is_missing, given)))


def _of_each(name: str, value: Any, texts: Any) -> list[Any]:
    """Return the value of each of several texts: those of a list in their order, or one for all."""
    if not is_list(value):
        return [value] * len(texts)
    if len(value) != len(texts):
        raise DataError(
            f"{name} has {counted(len(value), 'value')} for {counted(len(texts), 'text')}: give one value for all, or "
            "a list with one for each (a list of lists, if each text has several)"
        )
    if isinstance(texts, pd.Series) and isinstance(value, pd.Series) and not texts.index.equals(value.index):
        raise DataError(
            f"the index of {name} is not that of the texts, so they may be in another order: give the DataFrame with "
            "both, or lists"
        )
    return list(value)


def shared_values(values: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return attributes that several texts share, as `RowInput.read` takes them: a list is the value of each text."""
    return {name: [value] * count if is_list(value) else value for name, value in values.items()}


def is_list(value: Any) -> bool:
    """Whether a value of an attribute is several."""
    return isinstance(value, list | tuple | pd.Series) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _without_series(given: Any, names: RowNames) -> Any:
    """Return rows of a DataFrame, which are Series, as mappings; other Series as they are."""
    if isinstance(given, pd.Series) and any(name in given.index for name in names.texts):
        return given.to_dict()
    if isinstance(given, list | tuple) and any(isinstance(one, pd.Series) for one in given):
        return [one.to_dict() if isinstance(one, pd.Series) else one for one in given]
    return given


def _is_row(given: Mapping[Any, Any], names: RowNames) -> bool:
    """Whether a mapping is one row, whose text is one text, rather than columns."""
    texts = [given[name] for name in names.texts if name in given]
    is_words = names.words and any(isinstance(one, list) and one and isinstance(one[0], str) for one in texts)
    return bool(texts) and (is_words or any(isinstance(one, str) for one in texts) or all(map(_is_missing, texts)))


def _is_missing(cell: Any) -> bool:
    return cell is None or cell is pd.NA or (isinstance(cell, float | np.floating) and bool(np.isnan(cell)))


def _columns_of_rows(rows: Sequence[Any], names: RowNames) -> dict[str, list[Any]]:
    """Return rows as columns: what a row has no value of is missing; only whole rows may have further keys."""
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise DataError(
                f"row {number} is {type(row).__name__}, and not a mapping: give texts, or for each row its columns"
            )
        if lacking := [name for name in names.columns(row) if name not in row]:
            unknown = [name for name in row if name not in names.all]
            if unknown:
                message = _unknown_name(unknown[0], names.all, what=f"the columns of row {number}")
                if lacking_texts := [name for name in lacking if name in names.texts]:
                    message = f"row {number} has no text: it lacks {', '.join(map(repr, lacking_texts))}; {message}"
                raise DataError(message)
    texts = {name for name in names.texts if any(name not in row for row in rows)}
    given = {name for row in rows for name in row}
    needed = [name for name in names.columns(given) if name not in texts]
    known = [name for name in names.columns(given, names.known) if name in given and name not in texts]
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys([*needed, *known])}


def _checked_frame(frame: pd.DataFrame, names: RowNames) -> pd.DataFrame:
    """Return a DataFrame whose columns are named as a training reads them, without blanks around the names."""
    trimmed = {name: name.strip() for name in frame.columns if isinstance(name, str) and name not in names.all}
    if any(name in names.all and name not in frame.columns for name in trimmed.values()):
        frame = frame.rename(columns=trimmed)
    for name in names.columns(frame.columns):
        if list(frame.columns).count(name) > 1:
            raise DataError(f"the DataFrame has several columns {name!r}: rename all but one")
    return frame


def _cells(values: Any) -> Any:
    return values if isinstance(values, np.ndarray) and values.ndim == 1 else list(values)


def plain_value(value: Any) -> Any:
    """Return a value of a column as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _shown(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
