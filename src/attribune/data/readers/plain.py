"""Texts as they are, for models that count words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput

__all__ = ["PartsReader", "PlainReader", "TextParts"]


@dataclass(frozen=True, kw_only=True)
class PlainRows(EncodedRows):
    """Rows with the text itself."""

    inputs: Sequence[str]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of characters of each row, (rows,)."""
        return np.array([len(text) for text in self.inputs], dtype=np.int64)


class PlainReader(Reader):
    """Reads the texts of rows as they are; a model without text gets empty ones."""

    name: ClassVar[str] = "plain"

    def __init__(self, *, uses_text: bool) -> None:
        self.uses_text = uses_text

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Read rows from columns given by name."""
        texts = text.read_all(columns, first_row=first_row)
        return PlainRows.without_attributes(texts if self.uses_text else [""] * len(texts))


class TextParts(NamedTuple):
    """What a row is read of: all of its text in one, and each text for itself."""

    joined: str
    parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PartRows(EncodedRows):
    """Rows with one or two texts."""

    inputs: Sequence[TextParts]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of characters of each row, (rows,)."""
        return np.array([len(text.joined) for text in self.inputs], dtype=np.int64)


class PartsReader(Reader):
    """Reads the one or two texts of rows as they are."""

    name: ClassVar[str] = "parts"

    def __init__(self, *, is_pair: bool) -> None:
        self.is_pair = is_pair

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Read rows from columns given by name."""
        texts = [text.read(columns, first_row=first_row)]
        if self.is_pair:
            texts.append(text.read_pairs(columns, first_row=first_row))
        joined = text.read_all(columns, first_row=first_row)
        inputs = [TextParts(*row) for row in zip(joined, zip(*texts, strict=True), strict=True)]
        return PartRows.without_attributes(inputs)
