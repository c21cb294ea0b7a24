"""JSON files that this library wrote, read by a schema: an error names file, places, values and cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from attribune.core.config import error_lines
from attribune.core.files import read_json
from attribune.errors import ModelFolderError

__all__ = ["checked_record", "read_record"]

T = TypeVar("T")
_SHOWN = 3


def read_record(path: str | Path, kind: type[T], *, what: str) -> T:
    """Read a JSON file that holds a `kind`: any type that pydantic knows.

    Raises:
        ModelFolderError: naming a file that is missing, truncated or not JSON, or the places that are of another type.
    """
    return checked_record(read_json(path, what=what), kind, source=path, what=what)


def checked_record(
    record: Any,
    kind: type[T],
    *,
    source: str | Path,
    what: str,
    strict: bool = False,
    cure: str = "restore the file, or copy the folder again",
) -> T:
    """Return what was read as a `kind`.

    Args:
        source: the file, for messages.
        strict: refuse values that pydantic would convert, such as texts of numbers.

    Raises:
        ModelFolderError: naming the places that are of another type.
    """
    try:
        return TypeAdapter(kind).validate_python(record, strict=strict)
    except ValidationError as error:
        lines = error_lines(error)
        more = f" and {len(lines) - _SHOWN:,} more" if len(lines) > _SHOWN else ""
        raise ModelFolderError(
            f"{source}: the {what} is damaged ({'; '.join(lines[:_SHOWN])}{more}): {cure}"
        ) from error
