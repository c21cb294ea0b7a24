"""Storage of tables while they are used: in memory when small, else in an Arrow file that is read as needed."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Self

import datasets
import pyarrow as pa
from datasets.fingerprint import generate_random_fingerprint

from attribune.core.files import temporary_folder
from attribune.errors import DataError

__all__ = ["IN_MEMORY", "ArrowStore", "check_stored"]

_SIZES: dict[str, int] = {}  # in bytes, of the files that this process has written

IN_MEMORY = 64 * 2**20
"""Bytes up to which a table stays in memory."""


class ArrowStore:
    """Collects batches of one schema and becomes a Dataset; past `in_memory` bytes they go to a file.

    An error inside ``with store:`` removes what was written.

    Args:
        folder: for the file; None takes `temporary_folder`.
    """

    def __init__(self, *, folder: str | Path | None = None, in_memory: int = IN_MEMORY) -> None:
        self._folder = folder
        self._limit = in_memory
        self._batches: list[pa.Table] = []
        self._bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._batches.clear()
            if self._writer is not None and self._path is not None:
                self._writer.close()
                self._path.unlink(missing_ok=True)

    def write(self, batch: pa.Table) -> None:
        """Add rows.

        Raises:
            DataError: when the disk is full or the folder cannot be written.
        """
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._limit:
            self._spill()

    def finish(self) -> datasets.Dataset:
        """Return what was written; at least one batch, possibly without rows, must have been.

        Raises:
            DataError: when the disk is full.
        """
        if self._writer is None:
            # By default it is a hash of all cells and, slowly, of each column, by which stored results would be found.
            return datasets.Dataset(pa.concat_tables(self._batches), fingerprint=generate_random_fingerprint())
        self._spill()
        try:
            self._writer.close()
        except OSError as error:
            raise self._failure(error) from error
        path = str(self._path)
        _SIZES[path] = os.stat(path).st_size
        os.chmod(path, stat.S_IREAD)  # it is mapped from now on: whoever cut it would end this process
        return datasets.Dataset.from_file(path)

    def _spill(self) -> None:
        try:
            for batch in self._batches:
                if self._writer is None:
                    self._path = self._new_file()
                    self._writer = pa.ipc.new_stream(str(self._path), batch.schema)
                self._writer.write_table(batch)
        except OSError as error:
            raise self._failure(error) from error
        self._batches.clear()
        self._bytes = 0

    def _new_file(self) -> Path:
        folder = Path(self._folder) if self._folder is not None else temporary_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".arrow", dir=folder)
        os.close(handle)
        return Path(name)

    def _failure(self, error: OSError) -> DataError:
        where = self._folder if self._folder is not None else tempfile.gettempdir()
        size = f"{self._limit / 2**20:.0f} MiB"
        return DataError(
            f"a table of more than {size} cannot be kept in {where} ({error.strerror or error}): free some space "
            "there, or name another folder (cache_dir, or TMPDIR in the environment)"
        )


def check_stored(table: datasets.Dataset) -> None:
    """Check that the files of a table are as they were written: a read beyond the end of one would kill the process.

    Raises:
        DataError: for a file that was cut or removed.
    """
    for name in (str(entry["filename"]) for entry in table.cache_files):
        if name in _SIZES and (not os.path.exists(name) or os.stat(name).st_size != _SIZES[name]):
            raise DataError(
                f"{name}, which holds the table that is read, was changed by another program: run the command again"
            )
