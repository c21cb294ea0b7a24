"""Columns of Arrow in types that a Dataset can hold, whoever wrote them."""

from __future__ import annotations

import re
import uuid

import pyarrow as pa
import pyarrow.compute as pc

from attribune.errors import DataError

__all__ = ["plain_column"]

_UNKNOWN = re.compile("extension<|run_end_encoded<|union<|list_view<")  # to Datasets
_SHOWN = 40  # bytes of a text


def plain_column(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """Return a column without encodings and extensions of Arrow: UUIDs and JSON become texts.

    Args:
        what: names the column, for messages.

    Raises:
        DataError: for texts that are not UTF-8, damaged values, or other extensions, such as the periods of pandas.
    """
    _check_whole(column, what)
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return plain_column(pa.chunked_array(chunks, type=kind.value_type), what)
    if isinstance(kind, pa.BaseExtensionType):
        stored = pa.chunked_array([chunk.storage for chunk in column.chunks], type=kind.storage_type)
        if kind.extension_name == "arrow.uuid":
            texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in stored.to_pylist()]
            return pa.chunked_array([pa.array(texts, pa.string())])
        if kind.extension_name == "arrow.bool8":
            return pc.not_equal(stored, 0)
        if kind.extension_name == "arrow.json":
            return plain_column(stored, what)
    if _UNKNOWN.search(str(kind)):
        raise DataError(f"{what} is of the type {kind!s:.80}: write it as texts, numbers or lists of them")
    return column


def _check_whole(column: pa.ChunkedArray, what: str) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{what} holds {_bad_text(column) or f'damaged values ({error})'}: write it again, with texts in UTF-8"
        ) from error


def _bad_text(column: pa.ChunkedArray) -> str | None:
    """Describe the first text that is not UTF-8; None where it is not a column of texts."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    for value in (value for chunk in column.chunks for value in chunk.view(binary).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError as error:
            return f"{value[max(0, error.start - 10) :][:_SHOWN]!r}, which is not UTF-8"
    return None
