"""Lists of messages in the cells of tables, as chats have them: ``{"role": ..., "content": ...}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.logs import show_note
from attribune.errors import DataError

__all__ = ["are_messages", "hold_messages", "message_texts", "say_messages", "with_contents", "with_contents_of_rows"]

_FIELDS = ("role", "content")


def are_messages(value: Any) -> bool:
    """Whether a cell is a list of messages, of which some may have no text."""
    return isinstance(value, list) and bool(value) and all(_content(one) is not None for one in value)


def _content(message: Any) -> str | None:
    """Return the text of a message, which may be in parts; "" where there is none, None for what is no message."""
    if message is None:
        return ""
    if not isinstance(message, Mapping) or not message.keys() >= {*_FIELDS}:
        return None
    content = message["content"]
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list | tuple) else [None]
    texts = [part.get("text", "") if isinstance(part, Mapping) else part for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    return "\n".join(known) if len(known) == len(texts) else None


def with_contents(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return a table with the contents of messages, each in lines, in place of columns of messages; and these."""
    names = [field.name for field in table.schema if hold_messages(field.type)]
    for name in names:
        table = table.set_column(table.column_names.index(name), name, _contents(table[name]))
    return table, names


def with_contents_of_rows(table: datasets.Dataset) -> tuple[datasets.Dataset, list[str]]:
    """Do it with a Dataset."""
    schema = table.features.arrow_schema
    names = [field.name for field in schema if hold_messages(field.type)]
    if not names:
        return table, names
    features = table.features.copy()
    features.update({name: datasets.Value("string") for name in names})

    def read(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {name: message_texts(batch[name]) for name in names}

    return table.map(read, batched=True, features=features, keep_in_memory=not table.cache_files), names


def say_messages(source: str, names: Sequence[str]) -> None:
    """Say which columns hold messages, and how they are read."""
    if names:
        listed = ", ".join(map(repr, names))
        show_note(f"{source}: the messages of {listed} are read as texts, their contents in lines, without the roles")


def message_texts(texts: Sequence[Any]) -> list[Any]:
    """Return texts, where some may be lists of messages: their contents in lines.

    Raises:
        DataError: for a message without role or content.
    """
    return [_message_text(one) if isinstance(one, list | tuple) else one for one in texts]


def _message_text(messages: Sequence[Any]) -> str:
    contents = []
    for message in messages:
        content = _content(message)
        if content is None:
            raise DataError(f"the message {str(message)!r:.80} has no text: give {{'role': ..., 'content': TEXT}}")
        contents.append(content)
    return "\n".join(contents)


def hold_messages(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of messages."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type):
        return False
    types = {field.name: field.type for field in kind.value_type}
    return all(name in types and _is_text(types[name]) for name in _FIELDS)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string())


def _contents(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the contents of each cell (n,), in lines; null where a cell is."""
    chunks = []
    for chunk in column.chunks:
        offsets = pc.list_value_length(chunk).fill_null(0)
        contents = pc.struct_field(pc.list_flatten(chunk), "content").fill_null("").cast(pa.string())
        starts = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(offsets.cast(pa.int64()))])
        lists = pa.ListArray.from_arrays(starts.cast(pa.int32()), contents)
        chunks.append(pc.if_else(chunk.is_valid(), pc.binary_join(lists, "\n"), pa.scalar(None, pa.string())))
    return pa.chunked_array(chunks, type=pa.string())
