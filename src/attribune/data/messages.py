"""Lists of messages in the cells of tables, as chats have them: ``{"role": ..., "content": ...}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import pyarrow as pa

from attribune.core.logs import show_note
from attribune.errors import DataError


def are_messages(value: Any) -> bool:
    """Whether a cell is a list of messages, of which some may have no text."""
    if not isinstance(value, list) or not value:
        return False
    return all(one is None or (_content(one) is not None and "role" in one) for one in value)


def _content(message: Any) -> str | None:
    """Return the text of a message, which may be in parts; "" where there is none, None for what is no message."""
    if message is None:
        return ""
    if not isinstance(message, Mapping) or "content" not in message:
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
        texts = pa.chunked_array([message_texts(part.to_pylist()) for part in table[name].chunks], pa.large_string())
        table = table.set_column(table.column_names.index(name), name, texts)
    return table, names


def with_contents_of_rows(table: datasets.Dataset) -> tuple[datasets.Dataset, list[str]]:
    """Do it with a Dataset."""
    schema = table.features.arrow_schema
    names = [field.name for field in schema if hold_messages(field.type)]
    if not names:
        return table, names
    features = table.features.copy()
    features.update({name: datasets.Value("large_string") for name in names})

    def read(batch: pa.Table) -> pa.Table:
        return with_contents(batch)[0]

    mapped = table.with_format("arrow").map(read, batched=True, features=features, keep_in_memory=not table.cache_files)
    return mapped.with_format(None), names


def say_messages(source: str, names: Sequence[str]) -> None:
    """Say which columns hold messages, and how they are read."""
    if names:
        listed = ", ".join(map(repr, names))
        show_note(f"{source}: the messages of {listed} are read as texts, their contents in lines, without the roles")


def message_texts(texts: Sequence[Any]) -> list[Any]:
    """Return texts, where some may be lists of messages: their contents in lines.

    Raises:
        DataError: for what is no message.
    """
    return [_message_text(one) if isinstance(one, list | tuple) else one for one in texts]


def _message_text(messages: Sequence[Any]) -> str:
    contents = []
    for message in messages:
        if (content := _content(message)) is None:
            raise DataError(f"{str(message)!r:.80} is no message with a text: give {{'role': ..., 'content': TEXT}}")
        contents.append(content)
    return "\n".join(contents)


def hold_messages(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of messages."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type):
        return False
    types = {field.name: field.type for field in kind.value_type}
    return "role" in types and "content" in types and _may_be_content(types["content"])


def _may_be_content(kind: pa.DataType) -> bool:
    """Whether values of this type are texts, or lists of parts that may have one."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.types.is_struct(kind.value_type) or _may_be_content(kind.value_type)
    return kind in (pa.string(), pa.large_string())
