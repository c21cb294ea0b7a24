"""Files that tests write and read as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribune.data.tables import read_table


def write(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file; text is written in UTF-8 with its ends of lines as they are."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(folder: Path, name: str, content: str | bytes, **reading: Any) -> dict[str, list[Any]]:
    """The columns of a table in a file of this content."""
    return dict(read_table(write(folder, name, content), **reading).to_dict())
