"""The standard input as a file, which can be read as often as any other."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

from attribune.data.file_kinds import WORKBOOKS, kind_of
from attribune.data.text_files import compression_of
from attribune.errors import ConfigError

__all__ = ["STDIN", "standard_input"]

STDIN = "-"
"""The name of the standard input."""


def standard_input(file_format: str | None = None) -> Path:
    """Save the standard input to a temporary file, which is removed when Python ends; the same file for each call.

    Args:
        file_format: what it holds, as an ending without its dot; None finds it.

    Raises:
        ConfigError: when nothing is piped in.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("there is nothing in the standard input: pipe a table in, as in `zcat t.csv.gz | attribune`")
    return _saved(sys.stdin.buffer, file_format)


@cache
def _saved(stream: IO[bytes], file_format: str | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="attribune-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    ending = f".{file_format}" if file_format is not None else kind_of(path) or ".csv"
    packed = "" if ending in WORKBOOKS else compression_of(path)
    return path.rename(folder / f"stdin{'' if packed == '.zip' else ending}{packed}")
