"""Reading of files in parts, without torch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from attribune.data.file_options import AS_FOUND, FileOptions
from attribune.data.table_files import table_batches
from attribune.models.predictor import Quantisation

__all__ = ["FilePart", "Job", "read_parts"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A prediction into a folder.

    Args:
        backbone: new location of the backbone's weights, if they were moved.
        files: input files, numbered from 1.
        part_rows: rows of a part.
        reading: how the files are read.
        quantise: ``int8``, or None.
    """

    run: str
    backbone: str | Path | None
    files: tuple[str, ...]
    part_rows: int
    output: str
    reading: FileOptions = AS_FOUND
    quantise: Quantisation | None = None


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
    for batch in table_batches(Path(job.files[file - 1]), options=job.reading):
        waiting.append(batch)
        # `waiting` stays non-empty, so that the last part is known to be the last.
        while sum(map(len, waiting)) > job.part_rows:
            rows = pa.concat_tables(waiting)
            if first not in done:
                yield FilePart(file=file, first_row=first, last=False, rows=rows.slice(0, job.part_rows))
            first, waiting = first + job.part_rows, [rows.slice(job.part_rows)]
    if first not in done:
        yield FilePart(file=file, first_row=first, last=True, rows=pa.concat_tables(waiting))
