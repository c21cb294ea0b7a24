"""Files cut into parts while they are read; whoever only reads needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from attribune.data.tables import table_batches

__all__ = ["FilePart", "Job", "read_parts"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A prediction into a folder: all that a worker must know.

    Args:
        backbone: where the backbone's weights are, if no longer where they were.
        files: that are read; their numbers begin with 1.
        encoding: of these; None finds it out.
        part_rows: rows of a part.
    """

    run: str
    backbone: str | None
    files: tuple[str, ...]
    encoding: str | None
    part_rows: int
    output: str


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """Rows of a file that are scored and written together.

    Args:
        file: number of the file, from 1.
        first_row: number of the first row in the file, from 1.
        last: whether the file ends with them.
        rows: with the columns of the file.
    """

    file: int
    first_row: int
    last: bool
    rows: pa.Table


def read_parts(job: Job, file: int, *, done: Collection[int]) -> Iterator[FilePart]:
    """Cut a file into parts while it is read; the same file and arguments give the same parts.

    Args:
        file: number of the file, from 1.
        done: first rows of the parts that are left out.

    Raises:
        AttribuneError: naming file, line or column of what cannot be read.
    """
    first, waiting = 1, list[pa.Table]()
    for batch in table_batches(Path(job.files[file - 1]), encoding=job.encoding):
        waiting.append(batch)
        # What is left over here is never empty, so that the last part is known to be the last.
        while sum(map(len, waiting)) > job.part_rows:
            rows = pa.concat_tables(waiting)
            if first not in done:
                yield FilePart(file=file, first_row=first, last=False, rows=rows.slice(0, job.part_rows))
            first, waiting = first + job.part_rows, [rows.slice(job.part_rows)]
    if first not in done:
        yield FilePart(file=file, first_row=first, last=True, rows=pa.concat_tables(waiting))
