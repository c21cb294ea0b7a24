"""Texts: which columns of a row are its text, how they are joined, and how they are tokenized and fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

from attribune.core.arguments import checked_arguments
from attribune.core.config import checked_dataclass
from attribune.data.rows import EncodedRows
from attribune.data.text_columns import join_text, listed_text
from attribune.data.text_pairs import PairTokens, Truncation
from attribune.data.windows import (
    Chunks,
    Head,
    SentenceChunks,
    SpecialTokens,
    Window,
    content_ids,
    longest_input,
    parse_window,
)
from attribune.errors import ConfigError

__all__ = ["TextEncoder", "TextInput"]

DEFAULT_LENGTH = 512
"""Length of the window when none is given, or the backbone's limit when that is smaller."""

_TEXTS = 1_000  # whose offsets are in memory at once


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
    ) -> Self:
        """Make one from the name of a column, or several names."""
        given = {"columns": columns, "prompt": prompt, "pair": pair, "negative": negative}
        names = {name: (value,) if isinstance(value, str) else tuple(value) for name, value in given.items()}
        return cls(names.pop("columns"), separator=separator, window=window, chat=chat, truncation=truncation, **names)

    @classmethod
    def read_setting(cls, given: TextInput | str | Sequence[str] | None) -> TextInput | None:
        """Return what was given as ``text_input``: itself, or one of the columns that are named."""
        return given if given is None or isinstance(given, TextInput) else cls.of(given)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read of every row; the negative is read where there is one."""
        return (*self.prompt, *self.columns, *self.pair)

    def read(self, table: Any, *, first_row: int = 1) -> list[str]:
        """Return the text of every row of a table; "" where there is none.

        Raises:
            DataError: for a missing column, or one that holds lists.
        """
        return self._joined(table, self.columns, first_row)

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
        names = (*(self.prompt if self.pair else ()), *self.columns, *self.pair)
        if words:
            return join_text([list(table[name]) for name in names], separator=self.separator)
        return self._joined(table, names, first_row)

    def _joined(self, table: Any, names: Sequence[str], first_row: int) -> list[str]:
        return join_text([listed_text(table[name], name, first_row) for name in names], separator=self.separator)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        window = None if self.window is None else str(self.window)
        settings: dict[str, Any] = {"columns": list(self.columns), "separator": self.separator, "window": window}
        settings |= {"prompt": list(self.prompt), "chat": self.chat} if self.prompt else {}
        settings |= {"pair": list(self.pair), "truncation": self.truncation} if self.pair else {}
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
        )


class TextEncoder:
    """Tokenizes texts, or pairs of texts, and fits them to the window.

    Args:
        window: how long texts are fitted; None keeps the beginning, at most 512 ids.
        limit: ids that the backbone takes; None asks the tokenizer.
        segments: whether the backbone tells the texts of a pair apart by `token_type_ids`.

    Raises:
        ConfigError: for a window that the backbone cannot take.
    """

    def __init__(
        self, tokenizer: Any, *, window: Window | None = None, limit: int | None = None, segments: bool = False
    ) -> None:
        limit = limit if limit is not None else longest_input(tokenizer)
        self.tokenizer, self.segments = tokenizer, segments
        self.special = SpecialTokens.of(tokenizer)
        self.window = window if window is not None else Head(min(DEFAULT_LENGTH, limit or DEFAULT_LENGTH))
        self.window.check(self.special, limit=limit)
        self._pairs: dict[str, PairTokens] = {}  # by the separator of the texts

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Encode the rows of some columns.

        Raises:
            DataError: for a missing column, or one that holds lists.
            ConfigError: for a prompt.
        """
        if text.prompt:
            raise ConfigError(
                f"this model reads no prompt ({', '.join(text.prompt)}): name its columns as text, or as the first of "
                "a pair"
            )
        texts, window = text.read(columns, first_row=first_row), self.window
        if text.pair and isinstance(window, SentenceChunks):
            raise ConfigError(f"the window {str(window)!r} has the sentences of one text: choose chunks for pairs")
        if isinstance(window, SentenceChunks):
            return self._sentence_rows(texts, window)
        contents = content_ids(self.tokenizer, texts) if texts else []
        whole = window.capacity(self.special)
        if text.pair:
            if isinstance(window, Chunks) and window.stride is not None:
                raise ConfigError(
                    f"the window {str(window)!r} has chunks that overlap, of one text: leave out the stride"
                )
            return self._pair_rows(text, columns, texts, contents, first_row=first_row)
        return EncodedRows.without_attributes(
            [window.fit(content, self.special) for content in contents],
            empty=[not part for part in texts],
            shortened=[len(content) > whole for content in contents],
        )

    def kept_texts(self, texts: Sequence[str]) -> list[str] | None:
        """Return the part of each text that the window keeps, for a model of words to read what this one reads.

        Head and tail have a space between them. None where the parts of a text cannot be found: with windows of
        sentences, and tokenizers without offsets.
        """
        if isinstance(self.window, SentenceChunks) or not self.tokenizer.is_fast:
            return None
        whole, found = self.window.capacity(self.special), []
        for start in range(0, len(texts), _TEXTS):
            some = list(texts[start : start + _TEXTS])
            encoded = self.tokenizer(
                some, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
            )
            pairs = zip(some, encoded["offset_mapping"], strict=True)
            found += [text if len(offsets) <= whole else self._pieces(text, offsets) for text, offsets in pairs]
        return found

    def _pieces(self, text: str, offsets: Sequence[tuple[int, int]]) -> str:
        places = self.window.cut(list(range(len(offsets))), self.special)
        starts = [place for place, before in zip(places, [None, *places], strict=False) if before != place - 1]
        ends = [place for place, after in zip(places, [*places[1:], None], strict=True) if after != place + 1]
        return " ".join(text[offsets[start][0] : offsets[end][1]] for start, end in zip(starts, ends, strict=True))

    def _sentence_rows(self, texts: Sequence[str], window: SentenceChunks) -> EncodedRows:
        sentences = [window.split(text) for text in texts]
        flat = [one for ones in sentences for one in ones]
        ids = iter(content_ids(self.tokenizer, flat) if flat else [])
        contents = [[next(ids) for _ in ones] for ones in sentences]
        return EncodedRows.without_attributes(
            [window.join(content, self.special) for content in contents],
            empty=[not text for text in texts],
            shortened=[window.shortens(content, self.special) for content in contents],
        )

    def _pair_rows(
        self,
        text: TextInput,
        columns: Mapping[str, Sequence[Any]],
        firsts: Sequence[str],
        contents: Sequence[list[int]],
        *,
        first_row: int,
    ) -> EncodedRows:
        seconds = text.read_pairs(columns, first_row=first_row)
        pairs = list(zip(contents, content_ids(self.tokenizer, seconds) if seconds else [], strict=True))
        tokens, size = self.pair_tokens(text), self.window.length(self.special)
        joined = [tokens.fit(one, two, window=self.window, size=size, truncation=text.truncation) for one, two in pairs]
        return EncodedRows.without_attributes(
            [ids for ids, _ in joined],
            empty=[not (one or two) for one, two in zip(firsts, seconds, strict=True)],
            shortened=[len(one) + len(two) + len(tokens) > size for one, two in pairs],
            segment_starts=None if tokens.second is None else [start for _, start in joined],
        )

    def pair_tokens(self, text: TextInput) -> PairTokens:
        """Return the special tokens around two texts.

        Raises:
            ConfigError: for a window without room for both.
        """
        tokens = self._pairs.get(text.separator)
        if tokens is None:
            tokens = PairTokens.of(self.tokenizer, segments=self.segments, separator=text.separator)
            room = self.window.length(self.special) - len(tokens)
            if room < 2:
                raise ConfigError(
                    f"the window {str(self.window)!r} leaves room for {max(room, 0)} ids of two texts beside "
                    f"{len(tokens)} special tokens: enlarge it"
                )
            self._pairs[text.separator] = tokens
        return tokens
