"""Prediction of files into a folder of parts: parts that are there are kept, the missing ones are made."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from attribune.core.progress import Reporter
from attribune.data.tables import check_same_columns, header_columns
from attribune.prediction.parts import Mark, PartsFolder, is_whole
from attribune.prediction.reading import Job, read_parts
from attribune.prediction.worker import PartScorer
from attribune.runs.folder import RunFolder

__all__ = ["predict_parts"]

_EVERY = 60  # seconds between two words on how far it is


def predict_parts(job: Job, *, engine: str, workers: int | None, reporter: Reporter) -> int:
    """Make the parts that are missing in the folder.

    Args:
        engine: ``local`` or ``ray``.
        workers: of ``ray``; None takes what the cluster has.

    Returns:
        Number of rows, with those that were there.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    headers = [(name, header_columns(Path(name), encoding=job.encoding)) for name in job.files]
    check_same_columns([(name, columns) for name, columns in headers if columns is not None])
    folder = PartsFolder(Path(job.output))
    marks = folder.begin(job, digest=_digest(job.run))
    summary = folder.finished()
    if summary is not None:
        reporter.note(f"{job.output} is finished already: {summary['rows']:,} rows in {summary['parts']:,} parts")
        return int(summary["rows"])
    if marks:
        reporter.note(f"going on: {len(marks):,} parts with {_rows(marks.values()):,} rows are there")
    told = time.monotonic()
    for mark in _missing(job, marks, engine=engine, workers=workers):
        _check_columns(job, mark, marks)
        marks[mark.file, mark.first_row] = mark
        if time.monotonic() - told > _EVERY:
            told = time.monotonic()
            reporter.note(f"{_rows(marks.values()):,} rows in {len(marks):,} parts are done")
    for line in folder.finish(job, marks).lines():
        reporter.note(line)
    reporter.note(f"{_rows(marks.values()):,} rows in {len(marks):,} parts are in {job.output}")
    return _rows(marks.values())


def _missing(job: Job, marks: Mapping[tuple[int, int], Mark], *, engine: str, workers: int | None) -> Iterator[Mark]:
    """Make the missing parts, in any order."""
    # Taken now: a file that is read again, since a worker was lost, must be cut as it was the first time.
    done = {
        number: frozenset(row for file, row in marks if file == number)
        for number in range(1, len(job.files) + 1)
        if not is_whole(number, marks)
    }
    if not done:
        return iter(())
    if engine == "local":
        return _here(job, done)
    from attribune.prediction.on_ray import score_on_cluster

    return score_on_cluster(job, done, workers=workers)


def _here(job: Job, done: Mapping[int, Collection[int]]) -> Iterator[Mark]:
    scorer = PartScorer(job)
    for file, rows in done.items():
        for part in read_parts(job, file, done=rows):
            yield scorer.score(part)


def _digest(run: str) -> str:
    """Return a digest of a run's recipe and of everything its model was saved with."""
    folder = RunFolder(Path(run))
    folder.read_recipe()
    digest = hashlib.sha256()
    for path in (folder.plan_file, *sorted(path for path in folder.model.rglob("*") if path.is_file())):
        digest.update(path.relative_to(folder.path).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _check_columns(job: Job, mark: Mark, marks: Mapping[tuple[int, int], Mark]) -> None:
    """Check what `header_columns` could not tell beforehand."""
    other = next(iter(marks.values()), mark)
    check_same_columns([(job.files[one.file - 1], one.columns) for one in (other, mark)])


def _rows(marks: Iterable[Mark]) -> int:
    return sum(mark.rows for mark in marks)
