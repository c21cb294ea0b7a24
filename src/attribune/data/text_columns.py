"""Columns of text: how the cells of a row become one text, and which rows have the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from attribune.core.arguments import as_list
from attribune.core.hashing import text_digest
from attribune.errors import DataError
from attribune.schema.columns import Table, as_array, as_written, column_batches

__all__ = ["canonical_text", "join_text", "listed_text", "share_texts", "text_digests"]


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
    """Return a text column, in whatever form a table gives it, as a list; DataError for a column of lists."""
    array = as_array(values, column=name, first_row=first_row)
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
