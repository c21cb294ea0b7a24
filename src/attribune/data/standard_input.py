"""The standard input as a file, which can be read as often as any other."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

from attribune.core.files import temporary_folder, writing_temporarily
from attribune.data.text_files import WORKBOOKS, compression_of, kind_of
from attribune.errors import ConfigError

__all__ = ["STDIN", "standard_input"]

STDIN = "-"
"""The name of the standard input."""


def standard_input(file_format: str | None = None) -> Path:
    """Save the standard input to a temporary file, which ends with this process; the same file for each call.

    On Linux the file has no name, so that the disk has no copy however the process ends: the path is a link to it.

    Args:
        file_format: what it holds, as an ending without its dot; None finds it.

    Raises:
        ConfigError: when nothing is piped in, or it cannot be saved.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("there is nothing in the standard input: pipe a table in, as in `zcat t.csv.gz | attribune`")
    return _saved(sys.stdin.buffer, file_format)


@cache
def _saved(stream: IO[bytes], file_format: str | None) -> Path:
    with writing_temporarily("the standard input"):
        folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
        path = _copied(stream, folder / "stdin")
    ending = f".{file_format}" if file_format is not None else kind_of(path) or ".csv"
    packed = "" if ending in WORKBOOKS else compression_of(path)
    return path.rename(folder / f"stdin{'' if packed == '.zip' else ending}{packed}")


def _copied(stream: IO[bytes], path: Path) -> Path:
    """Save a stream so that it is read at a path."""
    open_files = Path(f"/proc/{os.getpid()}/fd")  # on Linux alone; a process that this one starts reads them there too
    if not open_files.is_dir():
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file)
        return path
    unnamed = tempfile.TemporaryFile()  # noqa: SIM115 (open until the process ends)
    atexit.register(unnamed.close)
    shutil.copyfileobj(stream, unnamed)
    unnamed.flush()
    path.symlink_to(open_files / str(unnamed.fileno()))
    return path
