"""Attribute kinds: what a column of attributes is, and how its values become a vocabulary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, fields
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import BeforeValidator, ValidationInfo

from attribune.core.arrays import IntArray
from attribune.core.config import checked_dataclass
from attribune.core.hashing import text_digest, text_number
from attribune.errors import ConfigError
from attribune.schema.columns import (
    NO_NUMBER,
    PATH,
    Cells,
    list_cells,
    path_cells,
    path_columns,
    single_cells,
)
from attribune.schema.times import (
    DateCycleName,
    DatePartName,
    check_date_format,
    cycle_of_date,
    date_words,
    part_of_date,
)

ENVIRONMENT = "env:"
"""Before the name of the environment variable that holds a salt."""


def _column_name(name: object) -> object:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"an attribute needs the name of its column, not {name!r}")
    return name


def _at_least_one(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{_setting(info)}={value!r} must be a whole number of at least 1")
    return value


def _known_choice(value: object, info: ValidationInfo) -> object:
    if value not in ("unknown", "error", "hash"):
        raise ConfigError(f"{_setting(info)}={value!r} must be 'unknown', 'error' or 'hash'")
    return value


def _setting(info: ValidationInfo) -> str:
    return f"attribute {info.data.get('name')!r}: {info.field_name}"


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _level_names(name: object) -> object:
    if isinstance(name, list | tuple) and all(isinstance(level, str) for level in name):
        name = PATH.join(name)
    if isinstance(name, str):
        levels = path_columns(name)
        if not all(level and level == level.strip() for level in levels) or len(set(levels)) < len(levels):
            raise ConfigError(
                f"a hierarchy is named {name!r}: name each of its columns once, the upper ones first, as in "
                "'country > state > city'"
            )
    return _column_name(name)


ColumnName = Annotated[str, BeforeValidator(_column_name)]
LevelNames = Annotated[str, BeforeValidator(_level_names)]
AtLeastOne = Annotated[int, BeforeValidator(_at_least_one)]
Unseen = Annotated[Literal["unknown", "error", "hash"], BeforeValidator(_known_choice)]


@checked_dataclass()
class _ColumnKind:
    """What all kinds share: they are called by the column that they read, unless they say another one.

    Attributes:
        is_numeric: whether values are numbers, whose ids are those of bins.
        is_nested: whether the values of a row are the levels of a hierarchy, the upper ones first.
        takes_several: whether a row may have several values.
        is_date: whether cells are dates or times.
    """

    is_numeric: ClassVar[bool] = False
    is_nested: ClassVar[bool] = False
    takes_several: ClassVar[bool] = False
    is_date: ClassVar[bool] = False

    name: ColumnName

    @property
    def column(self) -> str:
        """The column of a table whose cells are read."""
        return self.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that these cells are made of."""
        return (self.column,)

    @property
    def words(self) -> str:
        """What a cell must be, in words."""
        return "a value of it"

    @property
    def of_numbers(self) -> bool:
        """Whether cells are numbers or times, which are never written as ``-`` or ``none``."""
        return self.is_numeric or self.is_date

    @property
    def separator(self) -> str | None:
        """What is between the values of a text; None where a text is one value, or a list."""
        return None

    @property
    def max_per_row(self) -> int:
        """The largest number of values of a row."""
        return 1

    def read(self, column: pa.Array, *, missing: frozenset[str], first_row: int) -> Cells:
        """Read the values of a column.

        Args:
            missing: the canonical texts that mean no value.
            first_row: number of its first row in the source, for messages.

        Raises:
            DataError: naming the row of a cell that cannot be read.
        """
        cells = self._cells(column, missing=missing, first_row=first_row)
        if not self.derives_values:
            return cells
        return cells.map(self.value_of, column=self.column, first_row=first_row)

    def _cells(self, column: pa.Array, *, missing: frozenset[str], first_row: int) -> Cells:
        words = missing.union(NO_NUMBER) if self.of_numbers else missing
        return single_cells(column, missing=words, column=self.column, first_row=first_row)

    def cell(self, value: str) -> Any:
        """Return a cell of a column with this value alone."""
        return [value] if self.takes_several else value

    def value_of(self, text: str) -> str | None:
        """Return the value that the text of a cell means; None for no value.

        Kinds of other packages override it. Users write values by hand too: a value must mean itself.

        Raises:
            ValueError: saying what is wrong with the text and how to correct it; the row is named by the caller.
        """
        return text

    @property
    def derives_values(self) -> bool:
        """Whether a value is something else than the text of its cell."""
        return type(self).value_of is not _ColumnKind.value_of


@checked_dataclass()
class VocabularyKind(_ColumnKind):
    """Settings shared by the kinds with a vocabulary."""

    _: KW_ONLY
    min_count: AtLeastOne = 1
    max_values: AtLeastOne | None = None
    unseen: Unseen = "unknown"
    buckets: AtLeastOne = 4096
    salt: str | None = None

    @property
    def lists_values(self) -> bool:
        """Whether every value has an id of its own."""
        return self.unseen != "hash"

    def __post_init__(self) -> None:
        if self.unseen != "unknown" and (self.min_count > 1 or self.max_values is not None):
            why = "lists no values" if self.unseen == "hash" else "refuses every value outside the vocabulary"
            raise ConfigError(
                f"attribute {self.name!r}: unseen={self.unseen!r} {why}, so min_count and max_values cannot leave "
                "values out: drop them, or use unseen='unknown'"
            )
        if self.salt is not None and self.unseen != "hash":
            raise ConfigError(f"attribute {self.name!r}: a salt needs unseen='hash' (unseen is {self.unseen!r})")
        if self.salt in ("", ENVIRONMENT):
            raise ConfigError(f"attribute {self.name!r}: the salt {self.salt!r} is empty: give a text, or None")


@checked_dataclass()
class Categorical(VocabularyKind):
    """One value per row, such as a user, a product or a publication.

    Args:
        min_count: values in fewer training rows than this share id 0 with unknown values.
        max_values: keep at most this many values, the most frequent ones.
        unseen: what happens to a value outside the vocabulary: `unknown` gives id 0; `error` stops, naming value and
            row; `hash` lists no values: every value, in training too, has one of `buckets` ids.
        buckets: number of ids of `hash`.
        salt: secret of `hash`. It is stored with the schema, and anyone who has it can test a list of names against the
            bucket counts; `"env:NAME"` reads it from the environment variable NAME instead, at fit and at encode
            time, and stores only that name and a check value which recognises a wrong salt.

    Raises:
        ConfigError: for settings out of range, or that do not fit together.
    """

    kind: ClassVar[str] = "categorical"


@checked_dataclass()
class MultiLabel(VocabularyKind):
    """Several values per row, such as tags or authors: a list column, or text.

    Settings not listed here are those of `Categorical`.

    Args:
        separator: splits text (`"a|b"`). Without it, text must be a list in JSON's or Python's way (`"['a', 'b']"`).
            A real list column needs none.
        max_per_row: maximum number of values per row; further ones are dropped and counted.

    Raises:
        ConfigError: for settings out of range, or that do not fit together.
    """

    kind: ClassVar[str] = "multi_label"
    takes_several: ClassVar[bool] = True
    _: KW_ONLY
    separator: str | None = None
    max_per_row: AtLeastOne = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.separator == "":
            raise ConfigError(f"attribute {self.name!r}: the separator is empty: give the text between two values")

    def _cells(self, column: pa.Array, *, missing: frozenset[str], first_row: int) -> Cells:
        return list_cells(column, separator=self.separator, missing=missing, column=self.column, first_row=first_row)


@checked_dataclass()
class Hierarchy(MultiLabel):
    """Columns that are nested, such as country, state and city: one attribute with a value for each level.

        Hierarchy(["country", "state", "city"])
        Hierarchy("country > state > city")

    The value of a level is the path to it, so that Springfield in Illinois is not Springfield in Oregon. A row has the
    values of all its levels, whose vectors add up: that of a city says how it differs from its state. Where a city is
    missing, unknown or rarer than `min_count`, the row has what is left, its state.

    Settings not listed here are those of `Categorical`.

    Args:
        name: the columns, the upper ones first. A single column has paths in its cells, such as ``Books > Crime``.
        unseen: what happens to a value outside the vocabulary: `unknown` leaves the levels above it, and `error` stops.
        separator: always None, since the levels of a path are separated by ``>`` between blanks.
        max_per_row: maximum number of levels; lower ones are dropped and counted.

    Raises:
        ConfigError: for settings out of range, a separator, or hashed values, none of which would be unknown.
    """

    kind: ClassVar[str] = "hierarchy"
    is_nested: ClassVar[bool] = True
    name: LevelNames

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, the upper ones first."""
        return path_columns(self.name)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.separator is not None:
            raise ConfigError(f"attribute {self.name!r}: a hierarchy has no separator: leave it out")
        if self.unseen == "hash":
            raise ConfigError(
                f"attribute {self.name!r}: with unseen='hash' no value is unknown, so that none would be replaced by "
                "the level above: use unseen='unknown'"
            )

    def _cells(self, column: pa.Array, *, missing: frozenset[str], first_row: int) -> Cells:
        return path_cells(column, missing=missing, column=self.column, first_row=first_row)


@checked_dataclass()
class Numeric(_ColumnKind):
    """A number per row, split into quantile bins of the training rows; a missing number is id 0.

    Args:
        bins: number of bins; there are fewer if many rows share one number.

    Raises:
        ConfigError: for fewer than one bin.
    """

    kind: ClassVar[str] = "numeric"
    is_numeric: ClassVar[bool] = True
    lists_values: ClassVar[bool] = False
    unseen: ClassVar[None] = None
    _: KW_ONLY
    bins: AtLeastOne = 10


@checked_dataclass()
class Number(Numeric):
    """A continuous number, such as an age: standardised, then turned into a vector by a learned map.

    The number of a row is rounded to the nearest of `bins` levels. Half of them are the means of quantile bins of the
    training rows, or all distinct numbers if there are few; the others lie evenly between the smallest and
    the largest, to which numbers beyond them are clipped.

    Args:
        bins: maximum number of levels; numbers in a table that describes values are not rounded.

    Raises:
        ConfigError: for fewer than one bin.
    """

    kind: ClassVar[str] = "number"
    _: KW_ONLY
    bins: AtLeastOne = 1_000


@checked_dataclass()
class Date(Categorical):
    """A column of dates or times, of which the model reads several parts, each as an attribute.

    Year, month, weekday and hour are categories with vectors of their own; the age is a continuous number. The season
    is the place in the year, and the daytime that in the day, each as two continuous numbers, its sine and cosine. An
    attribute is called by the column and its part, such as ``posted.year``. A time with a zone is read in UTC.

    Args:
        date_format: how dates are written: `iso`, `day-first`, `month-first`, `seconds` or `milliseconds` since 1970,
            or a `strptime` format; None detects it in the training rows.
        parts: of `year`, `month`, `weekday`, `hour`, `age`, `season` and `daytime`; None takes all but the last two,
            and the hour only where the training rows have times of day.
        min_count: years, months, weekdays and hours in fewer training rows than this share id 0 with unknown ones.
        max_values: keep at most this many values of a part, the most frequent ones.
        unseen: what happens to a year, month, weekday or hour outside the vocabulary: `unknown` or `error`.

    Raises:
        ConfigError: for settings out of range, an unknown format or part, or a part given twice.
    """

    kind: ClassVar[str] = "date"
    is_date: ClassVar[bool] = True
    _: KW_ONLY
    date_format: str | None = None
    parts: Annotated[tuple[DatePartName, ...] | None, BeforeValidator(_as_tuple)] = None

    @property
    def lists_values(self) -> bool:
        """Whether every value has an id of its own; those of its parts have."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unseen == "hash":
            raise ConfigError(f"attribute {self.name!r}: a date has few values, which are not hashed: drop unseen")
        if self.date_format is not None:
            check_date_format(self.date_format, since_1970=True)
        if self.parts is not None and (not self.parts or len(set(self.parts)) < len(self.parts)):
            raise ConfigError(
                f"attribute {self.name!r}: parts is {list(self.parts)}: name each part once, at least one"
            )


@checked_dataclass()
class OfDate(_ColumnKind):
    """A part of the dates of a column; the schema makes it of a `Date`.

    Args:
        of: the column.
        date_format: how dates are written.
    """

    is_date: ClassVar[bool] = True
    _: KW_ONLY
    of: ColumnName
    date_format: str

    @property
    def column(self) -> str:
        """The column of a table whose cells are read."""
        return self.of

    @property
    def words(self) -> str:
        """What a cell must be, in words."""
        return date_words(self.date_format)


@checked_dataclass()
class DatePart(OfDate, Categorical):
    """The year, month, weekday or hour of a date.

    Args:
        part: what of the date is the value.
    """

    kind: ClassVar[str] = "date_part"
    _: KW_ONLY
    part: DatePartName

    def value_of(self, text: str) -> str | None:
        """Return the part of a date; None for a text that is no date, nor such a part itself."""
        return part_of_date(text, self.part, self.date_format)


@checked_dataclass()
class DateAge(OfDate, Number):
    """A date as a continuous number of years, such as 2024.38."""

    kind: ClassVar[str] = "date_age"

    def value_of(self, text: str) -> str | None:
        """Return the years of a date; None for a text that is no date, nor a number of years itself."""
        return part_of_date(text, "age", self.date_format)


@checked_dataclass()
class DateCycle(OfDate, Number):
    """The sine or cosine of the place of a date in its year, or of a time in its day.

    Args:
        cycle: `season` or `daytime`.
        wave: `sine` or `cosine`.
    """

    kind: ClassVar[str] = "date_cycle"
    _: KW_ONLY
    cycle: DateCycleName
    wave: Literal["sine", "cosine"]

    def value_of(self, text: str) -> str | None:
        """Return the number of a date; None for a text that is no date, nor a number from -1 to 1 itself."""
        return cycle_of_date(text, self.cycle, self.wave, self.date_format)


Kind: TypeAlias = Categorical | MultiLabel | Numeric
KINDS: dict[str, type[Kind]] = {kind.kind: kind for kind in (Categorical, MultiLabel, Hierarchy, Numeric, Number, Date)}
"""Every kind by its name, those of plugins among them."""
PART_KINDS: dict[str, type[Kind]] = {kind.kind: kind for kind in (DatePart, DateAge, DateCycle)}
"""The kinds of fitted attributes that are parts of a column; a recipe names the kind of the column."""


def read_kind(settings: Mapping[str, Any], kinds: Mapping[str, Any], *, what: str) -> Any:
    """Read the settings of a column; its kind is ``categorical`` by default.

    Args:
        kinds: the dataclass of each kind by its name.
        what: the column is, for messages.

    Raises:
        ConfigError: for an unknown kind or option, a setting of the wrong type, or no name.
    """
    options = dict(settings)
    kind = options.pop("kind", "categorical")
    if kind not in tuple(kinds):
        raise ConfigError(f"unknown kind of {what} {kind!r}: choose one of {', '.join(kinds)}")
    known = [field.name for field in fields(kinds[kind])]
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(
            f"{what} {options.get('name')!r} has no option {', '.join(unknown)}: as {kind} it has {', '.join(known)}"
        )
    if "name" not in options:
        raise ConfigError(f"the {what} of kind {kind} has no name: give the name of its column")
    try:
        return kinds[kind](**options)
    except TypeError as error:
        raise ConfigError(f"{what} {options['name']!r} has a setting of the wrong type ({error})") from None


def kind_settings(kind: Kind | str) -> dict[str, Any]:
    """Return an attribute as `read_kind` takes it; the name of a column is a categorical one."""
    return {"kind": Categorical.kind, "name": kind} if isinstance(kind, str) else {"kind": kind.kind, **asdict(kind)}


def as_kinds(attributes: Sequence[Kind | str] | Kind | str) -> list[Kind]:
    """Return attributes as kinds: the name of a column is a categorical one.

    Raises:
        ConfigError: for anything but names and kinds.
    """
    if isinstance(attributes, str | Kind):
        attributes = [attributes]
    if not isinstance(attributes, Sequence):
        raise ConfigError(f"the attributes are {attributes!r:.80}: give a list of names, or of kinds")
    if wrong := [one for one in attributes if not isinstance(one, str | Kind)]:
        raise ConfigError(
            f"an attribute is {wrong[0]!r:.80}: give the name of a column, or a kind such as Categorical('user')"
        )
    return [Categorical(one) if isinstance(one, str) else one for one in attributes]


def checked_missing(missing: Sequence[str]) -> tuple[str, ...]:
    """Return the texts that mean no value; ConfigError for anything but a list of texts."""
    is_list = isinstance(missing, Sequence) and not isinstance(missing, str)
    if not is_list or not all(isinstance(text, str) for text in missing):
        raise ConfigError(f"missing={missing!r} must be a list of texts that mean no value, such as ['', 'n/a']")
    return tuple(missing)


def checked_names(attributes: Sequence[Kind]) -> None:
    """Check attributes; ConfigError for what is none, or a name given twice."""
    for spec in attributes:
        if not isinstance(spec, Kind):
            raise ConfigError(
                f"{spec!r} is not an attribute: give the name of a column, or Categorical, MultiLabel, Hierarchy, "
                "Numeric, Number or Date, such as Categorical('user')"
            )
        if (KINDS | PART_KINDS).get(spec.kind) is not type(spec):
            raise ConfigError(
                f"attribute {spec.name!r} is of the kind {spec.kind!r}, which is not that of {type(spec).__name__} in "
                "attribune.schema.kinds.KINDS, so that no saved schema could be loaded: add it there"
            )
    names = [spec.name for spec in attributes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"attribute {twice!r} is given twice: name each column once")


def nested_columns(attributes: Iterable[Kind]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each hierarchy, by its name."""
    return {spec.name: spec.columns for spec in attributes if spec.is_nested}


def hashed_ids(spec: VocabularyKind, texts: Sequence[str], *, check: str | None) -> IntArray:
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
    return np.array([text_number(text, key=key) % spec.buckets + 1 for text in texts], dtype=np.int64)


def salt_check(spec: VocabularyKind) -> str | None:
    """Return a value that recognises a salt from the environment; None for any other salt."""
    if spec.salt is None or not spec.salt.startswith(ENVIRONMENT):
        return None
    return text_digest("attribune", key=_key(spec), person=b"check").hex()


def _key(spec: VocabularyKind) -> bytes:
    salt = spec.salt or ""
    if salt.startswith(ENVIRONMENT):
        variable = salt.removeprefix(ENVIRONMENT)
        salt = os.environ.get(variable, "")
        if not salt:
            raise ConfigError(
                f"attribute {spec.name!r}: the environment variable {variable!r} with the salt is not set: "
                "set it to the value used in training"
            )
    return text_digest(salt, size=64) if salt else b""
