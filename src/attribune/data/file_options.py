"""How the file of a table is read: the options, as arguments of functions and as flags of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypedDict, cast

from attribune.core.flags import as_flag
from attribune.errors import ConfigError

FORMATS = ("csv", "tsv", "jsonl", "ndjson", "json", "parquet", "feather", "arrow", "xlsx", "xls", "xlsb", "ods")
"""What a file can hold."""
_DECIMALS = (",", ".")
_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t"}


class ReadingOfAll(TypedDict, total=False):
    """The options as arguments of a function that has a number of rows of its own."""

    encoding: str | None
    delimiter: str | None
    quoting: bool | None
    decimal: str | None
    columns: Sequence[str] | None
    file_format: str | None


class Reading(ReadingOfAll, total=False):
    """The options as arguments of a function, ``**reading: Unpack[Reading]``; `FileOptions` describes them."""

    rows: int | None


def _flag(words: str, **more: Any) -> Any:
    return field(default=None, metadata={"help": words, **more})


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file is read; what is None is found.

    Args:
        encoding: of a text file.
        delimiter: between the fields of CSV and TSV, one character or ``tab``.
        quoting: for CSV and TSV, whether double quotes enclose fields; False takes them as plain characters. None takes
            them so in a file with tabs if each of its lines has then as many fields as the first, and else not.
        decimal: for CSV and TSV, what stands in front of decimals, ``,`` or ``.``. With a comma, columns that hold
            numbers alone are read so, with points or spaces between thousands. None takes a comma where semicolons
            separate the fields, as in countries that write numbers so, and such a column has one.
        columns: names of the columns of a CSV or TSV file or a workbook that has no header: row 1 is then data.
        file_format: what a file holds, such as ``csv``, whatever its name ends in; None goes by the name, or finds what
            the standard input holds.
        rows: maximum number of rows, from the first one; None reads all.

    Raises:
        ConfigError: for a delimiter, format or number that is none.
    """

    encoding: str | None = _flag("encoding of the table; detected by default")
    delimiter: str | None = _flag("delimiter of CSV fields, or tab; detected by default", metavar="CHAR")
    quoting: bool | None = _flag(
        "whether double quotes enclose CSV fields, or are plain characters (none)", choices=("double", "none")
    )
    decimal: str | None = _flag(
        "what stands in front of decimals in CSV fields, a comma or a point; a comma is detected where semicolons "
        "separate fields",
        choices=_DECIMALS,
        metavar="CHAR",
    )
    columns: Sequence[str] | None = _flag(
        "names of the columns of a table without a header row", nargs="+", action="extend", metavar="NAME"
    )
    file_format: str | None = _flag("format of the table, such as csv or parquet, whatever its name ends in")
    rows: int | None = _flag("read only the first N rows of each table", type=int, metavar="N")

    def __post_init__(self) -> None:
        """Check the options."""
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
        if self.delimiter is not None and (len(self.field_delimiter) != 1 or self.field_delimiter in '"\r\n'):
            raise ConfigError(f"delimiter is {self.delimiter!r}: give one character, such as ';', or tab")
        if self.decimal is not None and self.decimal not in _DECIMALS:
            raise ConfigError(f"decimal is {self.decimal!r}: choose one of {' '.join(_DECIMALS)}")
        if self.file_format is not None and self.file_format not in FORMATS:
            raise ConfigError(f"file_format is {self.file_format!r}: choose one of {', '.join(FORMATS)}")
        if self.columns is not None and (not self.columns or len(set(self.columns)) < len(self.columns)):
            raise ConfigError(f"columns is {list(self.columns)}: give each column of the file a name of its own")
        if self.rows is not None and self.rows < 1:
            raise ConfigError(f"rows is {self.rows}: give at least 1, or leave it out to read all")

    @classmethod
    def of(cls, source: Any) -> Self:
        """Take the options from an object that has attributes of these names, and perhaps others."""
        return cls(**{name: getattr(source, name) for name in Reading.__annotations__})

    @classmethod
    def flags(cls) -> dict[str, dict[str, Any]]:
        """Return the flag of each option, such as ``--file-format``, with its options for argparse."""
        return {as_flag(one.name): dict(one.metadata) for one in fields(cls)}

    @property
    def field_delimiter(self) -> str:
        """The delimiter as a character."""
        return _NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter or "")

    def given(self) -> Reading:
        """Return the options that are not None, as arguments."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return cast("Reading", {name: value for name, value in found.items() if value is not None})

    def words(self) -> dict[str, list[str]]:
        """Return the words of the command line that give the same options: each flag with its values."""
        given: dict[str, Any] = {**self.given()}
        if self.delimiter is not None:
            given["delimiter"] = "tab" if self.field_delimiter == "\t" else self.delimiter
        if self.quoting is not None:
            given["quoting"] = "double" if self.quoting else "none"
        return {as_flag(name): list(one) if name == "columns" else [str(one)] for name, one in given.items()}

    def beside(self, source: object) -> FileOptions:
        """Return how another table than that of the rows is read, such as one that describes values.

        The encoding is the same, and how the fields of a CSV file are written. Columns, format and number are those of
        the rows alone.
        """
        is_file = isinstance(source, str | Path)
        is_csv = is_file and ".csv" in (suffix.lower() for suffix in Path(str(source)).suffixes)
        same = replace(self, columns=None, file_format=None, rows=None) if is_file else AS_FOUND
        return same if is_csv else replace(same, delimiter=None, quoting=None, decimal=None)


AS_FOUND = FileOptions()
"""All of it is found."""


def file_word(name: str) -> str:
    """Return the name of a file as a word of the command line, where one that begins with a dash would be a flag."""
    return f"./{name}" if name.startswith("-") and name != "-" else name


@dataclass(frozen=True, kw_only=True)
class FileForm:
    """How a CSV or TSV file is written, for another one that is to be written in the same way.

    Args:
        ending: ``.csv`` or ``.tsv``.
        commas: names of the columns whose numbers have decimal commas, or other marks; with any, new numbers have them.
        is_unnamed: whether the first column has no name.
    """

    ending: str
    delimiter: str
    commas: tuple[str, ...] = ()
    is_unnamed: bool = False
