"""Reading of files in parts, without torch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from attribune.data.table_files import FileOptions, table_batches
from attribune.models.quantised import Quantisation

__all__ = ["FilePart", "Job", "read_parts"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A prediction into a folder.

    Args:
        backbone: new location of the backbone's weights, if they were moved.
        files: input files, numbered from 1.
        encoding: of the files; None detects it, as it does for `delimiter`, `quoting` and `file_format`.
        columns: names of the columns of files without a header; None takes those of their first rows.
        rows: maximum number of rows of each file; None takes all.
        part_rows: rows of a part.
        quantise: ``int8``, or None.
    """

    run: str
    backbone: str | Path | None
    files: tuple[str, ...]
    part_rows: int
    output: str
    encoding: str | None = None
    quantise: Quantisation | None = None
    delimiter: str | None = None
    quoting: bool | None = None
    columns: tuple[str, ...] | None = None
    file_format: str | None = None
    rows: int | None = None

    @property
    def options(self) -> FileOptions:
        """How the files are read."""
        return FileOptions(
            encoding=self.encoding,
            delimiter=self.delimiter,
            quoting=self.quoting,
            columns=self.columns,
            file_format=self.file_format,
            rows=self.rows,
        )


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """Rows of a file that are scored and written together; the other fields are those of `Mark`."""

    file: int
    first_row: int
    last: bool
    rows: pa.Table


def read_parts(job: Job, file: int, *, done: Collection[int]) -> Iterator[FilePart]:
    """Cut a file into parts while it is read; the same file and arguments give the same parts.

    Args:
        file: number of the file, from 1.
        done: first rows of the parts to skip.

    Raises:
        AttribuneError: naming file, line or column of what cannot be read.
    """
    first, waiting = 1, list[pa.Table]()
    for batch in table_batches(Path(job.files[file - 1]), options=job.options):
        waiting.append(batch)
        # `waiting` stays non-empty, so that the last part is known to be the last.
        while sum(map(len, waiting)) > job.part_rows:
            rows = pa.concat_tables(waiting)
            if first not in done:
                yield FilePart(file=file, first_row=first, last=False, rows=rows.slice(0, job.part_rows))
            first, waiting = first + job.part_rows, [rows.slice(job.part_rows)]
    if first not in done:
        yield FilePart(file=file, first_row=first, last=True, rows=pa.concat_tables(waiting))
