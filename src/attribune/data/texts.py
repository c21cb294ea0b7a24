"""Texts: which columns of a row are its text, how they are joined, and which rows have the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

import pyarrow as pa

from attribune.core.arguments import as_list, checked_arguments
from attribune.core.config import checked_dataclass
from attribune.core.hashing import text_digest
from attribune.data.messages import hold_messages, message_texts
from attribune.data.windows import Head, Truncation, Window, parse_window
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import Table, as_array, as_written, column_batches


def join_text(columns: Sequence[Sequence[Any]], *, separator: str = "\n") -> list[str]:
    """Join the text columns row by row; missing and blank parts are skipped, so a row without any gives ""."""
    parts = [[canonical_text(value) for value in column] for column in columns]
    if len(parts) == 1:
        return parts[0]
    return [separator.join(part for part in row if part) for row in zip(*parts, strict=True)]


def canonical_text(value: Any) -> str:
    """Trim a text; a missing one is "", and one of words has spaces between them."""
    if isinstance(value, list):
        return " ".join(filter(None, map(canonical_text, value)))
    return as_written(value).strip()


def listed_text(values: Any, name: str, first_row: int) -> list[Any]:
    """Return a text column, in whatever form a table gives it, as a list; messages of chats are read as in files.

    Raises:
        DataError: for a column of other lists.
    """
    array = as_array(values, column=name, first_row=first_row)
    if hold_messages(array.type):
        return message_texts(array.to_pylist())
    if pa.types.is_nested(array.type):
        raise DataError(f"the text column {name!r} holds {array.type}, not text: join it first, or name another column")
    return list(array.to_pylist())


def text_digests(table: Table, text: Sequence[str]) -> list[bytes | None]:
    """Return a hash of 128 bits of each row's text (trimmed, columns joined); None for a row without text."""
    names = as_list(text)
    digests: list[bytes | None] = []
    for _, columns in column_batches(table, names, batch_size=2_000):
        texts = join_text([columns[name].to_pylist() for name in names])
        digests += [text_digest(joined, size=16) if joined else None for joined in texts]
    return digests


def share_texts(train: Table, other: Table, *, text: Sequence[str]) -> int:
    """Count the rows of another table whose text is in the training table; rows without text do not count."""
    known = {digest for digest in text_digests(train, text) if digest is not None}
    return sum(digest in known for digest in text_digests(other, text))


DEFAULT_LENGTH = 512
"""Length of the window when none is given, or the backbone's limit when that is smaller."""


def usual_window(limit: int | None) -> Head:
    """Return the window when none is given, of a backbone that takes `limit` ids; None for one without a limit."""
    return Head(min(DEFAULT_LENGTH, limit or DEFAULT_LENGTH))


@checked_dataclass()
class TextInput:
    """The text of a row; saved with the model, so that new rows are read as those of training.

    A model that writes reads the prompt, and the text is its response. One that compares reads the text, the pair and
    the negative each for itself, after the prompt if there is one.

    Args:
        columns: names of the text columns; several are joined.
        separator: stands between two joined texts, and between prompt and response.
        window: how long texts are fitted; None keeps the beginning, at most 512 ids.
        prompt: names of the columns of the prompt; several are joined.
        chat: put prompt and response into the tokenizer's chat template.
        pair: names of the columns of a second text, which is read together with the first; several are joined.
        truncation: which of two texts is cut when they do not fit.
        negative: names of the columns of a text that fits less than the pair, of rows to learn from; several are
            joined.
        shares_window: whether each of several columns has a fair share of a window that is too short for all; the end
            of the joined text is cut otherwise.
        written: names of the attributes whose values are written in front of the text, beside what the method of the
            model does with them.

    Raises:
        ConfigError: without a column.
    """

    columns: tuple[str, ...]
    _: KW_ONLY
    separator: str = "\n"
    window: Window | None = None
    prompt: tuple[str, ...] = ()
    chat: bool = False
    pair: tuple[str, ...] = ()
    truncation: Truncation = "longest_first"
    negative: tuple[str, ...] = ()
    shares_window: bool = False
    written: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError("no text column is named: name at least one column")
        if self.chat and not self.prompt:
            raise ConfigError("a chat template needs a prompt: name its column")

    @classmethod
    @checked_arguments
    def of(
        cls,
        columns: str | Sequence[str],
        *,
        separator: str = "\n",
        window: Window | None = None,
        prompt: str | Sequence[str] = (),
        chat: bool = False,
        pair: str | Sequence[str] = (),
        truncation: Truncation = "longest_first",
        negative: str | Sequence[str] = (),
        shares_window: bool = False,
        written: str | Sequence[str] = (),
    ) -> Self:
        """Make one from the name of a column, or several names."""
        given = {"columns": columns, "prompt": prompt, "pair": pair, "negative": negative, "written": written}
        names = {name: tuple(as_list(value)) for name, value in given.items()}
        return cls(
            **names,
            separator=separator,
            window=window,
            chat=chat,
            truncation=truncation,
            shares_window=shares_window,
        )

    @classmethod
    def read_setting(cls, given: TextInput | str | Sequence[str] | None) -> TextInput | None:
        """Return what was given as ``text_input``: itself, or one of the columns that are named."""
        return given if given is None or isinstance(given, TextInput) else cls.of(given)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read of every row; the negative is read where there is one."""
        return (*self.prompt, *self.columns, *self.pair)

    @property
    def joined_names(self) -> tuple[str, ...]:
        """The columns that `read_all` joins: those of all texts, and of two with a prompt that as well."""
        return (*(self.prompt if self.pair else ()), *self.columns, *self.pair)

    def read(self, table: Any, *, first_row: int = 1) -> list[str]:
        """Return the text of every row of a table; "" where there is none.

        Raises:
            DataError: for a missing column, or one that holds lists.
        """
        return self._joined(table, self.columns, first_row)

    def read_parts(self, table: Any, *, first_row: int = 1) -> list[list[str]]:
        """Return the texts of every row that `read` joins, without empty ones."""
        columns = [listed_text(table[name], name, first_row) for name in self.columns]
        return [[text for cell in row if (text := canonical_text(cell))] for row in zip(*columns, strict=True)]

    def read_prompts(self, table: Any, *, first_row: int = 1) -> list[str]:
        """Return the prompt of every row of a table, as `read` does its text."""
        return self._joined(table, self.prompt, first_row)

    def read_pairs(self, table: Any, *, first_row: int = 1) -> list[str]:
        """Return the second text of every row of a table, as `read` does the first."""
        return self._joined(table, self.pair, first_row)

    def read_all(self, table: Any, *, first_row: int = 1, words: bool = False) -> list[str]:
        """Return both texts of every row in one, with the separator between them; the text itself without a pair.

        Two texts with a prompt stand behind it.

        Args:
            words: whether a text may be a list of words, which are joined by spaces.
        """
        if words:
            return join_text([list(table[name]) for name in self.joined_names], separator=self.separator)
        return self._joined(table, self.joined_names, first_row)

    def read_rows(self, table: Any, *, first_row: int = 1) -> list[tuple[str, ...]]:
        """Return the texts of every row that `read_all` joins, one of each column; errors as those of `read`."""
        columns = [self._joined(table, [name], first_row) for name in self.joined_names]
        return list(zip(*columns, strict=True))

    def _joined(self, table: Any, names: Sequence[str], first_row: int) -> list[str]:
        return join_text([listed_text(table[name], name, first_row) for name in names], separator=self.separator)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        window = None if self.window is None else str(self.window)
        settings: dict[str, Any] = {"columns": list(self.columns), "separator": self.separator, "window": window}
        settings |= {"prompt": list(self.prompt), "chat": self.chat} if self.prompt else {}
        settings |= {"pair": list(self.pair), "truncation": self.truncation} if self.pair else {}
        settings |= {"shares_window": True} if self.shares_window and len(self.columns) > 1 else {}
        settings |= {"written": list(self.written)} if self.written else {}
        return settings | ({"negative": list(self.negative)} if self.negative else {})

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Build what `to_dict` returned; ConfigError for anything else."""
        try:
            columns, separator, window = (settings[name] for name in ("columns", "separator", "window"))
        except (KeyError, TypeError) as error:
            raise ConfigError(f"text_input={settings!r} lacks {error}: save the model again") from error
        return cls(
            tuple(columns),
            separator=separator,
            window=None if window is None else parse_window(window, max_length=DEFAULT_LENGTH),
            prompt=tuple(settings.get("prompt", ())),
            chat=bool(settings.get("chat", False)),
            pair=tuple(settings.get("pair", ())),
            truncation=settings.get("truncation", "longest_first"),
            negative=tuple(settings.get("negative", ())),
            shares_window=bool(settings.get("shares_window", False)),
            written=tuple(settings.get("written", ())),
        )
