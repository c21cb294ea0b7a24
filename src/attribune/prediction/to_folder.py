"""Prediction of files into a folder of parts; existing parts are kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attribune.core.hashing import file_sha256, sha256
from attribune.core.progress import Reporter
from attribune.core.wording import counted
from attribune.data.table_files import header_columns
from attribune.data.tables import check_same_columns
from attribune.data.writing import open_writer
from attribune.models.predictor import Predictor
from attribune.prediction.parts import FilePart, Job, Mark, PartsFolder, is_whole, read_parts
from attribune.prediction.rows import note_empty_texts, score_rows
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_predictor
from attribune.schema import EncodingReport

__all__ = ["predict_parts"]

_NOTE_INTERVAL = 60  # seconds between notes about the progress


def predict_parts(job: Job, *, reporter: Reporter) -> int:
    """Make the missing parts of a folder; returns the number of rows of all parts.

    Arguments and errors are those of `predict`.
    """
    headers = [(name, header_columns(Path(name), options=job.reading)) for name in job.files]
    check_same_columns([(name, columns) for name, columns in headers if columns is not None])
    folder = PartsFolder(Path(job.output))
    folder.refuse_foreign()
    with folder.held():
        return _predict_parts(job, folder, reporter)


def _predict_parts(job: Job, folder: PartsFolder, reporter: Reporter) -> int:
    marks = folder.begin(job, digest=_digest(job.run))
    summary = folder.finished()
    if summary is not None:
        there = _amount(summary["rows"], summary["parts"])
        reporter.note(f"{job.output} is finished already: {there}")
        return int(summary["rows"])
    if marks:
        reporter.note(f"resuming after {_amount(_rows(marks.values()), len(marks))}")
    told = time.monotonic()
    for mark in _missing(job, marks):
        # `header_columns` does not know the columns of all files beforehand.
        other = next(iter(marks.values()), mark)
        check_same_columns([(job.files[one.file - 1], one.columns) for one in (other, mark)])
        marks[mark.file, mark.first_row] = mark
        if time.monotonic() - told > _NOTE_INTERVAL:
            told = time.monotonic()
            reporter.note(f"{_amount(_rows(marks.values()), len(marks))} done")
    reports = folder.finish(job, marks)
    for name, report in reports.items():
        note_empty_texts(report, name, reporter)
    for line in sum(reports.values(), EncodingReport({})).lines():
        reporter.note(line)
    reporter.note(f"{_amount(_rows(marks.values()), len(marks))} written to {job.output}")
    return _rows(marks.values())


def _missing(job: Job, marks: Mapping[tuple[int, int], Mark]) -> Iterator[Mark]:
    """Make the missing parts."""
    numbers = [number for number in range(1, len(job.files) + 1) if not is_whole(number, marks)]
    if not numbers:
        return
    predictor = load_predictor(job.run, backbone=job.backbone, quantise=job.quantise)
    for number in numbers:
        done = {row for file, row in marks if file == number}
        for part in read_parts(job, number, done=done):
            yield _write_part(part, job, predictor)


def _write_part(part: FilePart, job: Job, predictor: Predictor) -> Mark:
    """Score a part and write it; returns its mark."""
    scored, report = score_rows(predictor, part.rows, source=job.files[part.file - 1], first_row=part.first_row)
    mark = Mark(
        file=part.file,
        first_row=part.first_row,
        rows=len(part.rows),
        last=part.last,
        columns=tuple(part.rows.column_names),
        report=report,
    )
    with open_writer(PartsFolder(Path(job.output)).part(part.file, part.first_row)) as writer:
        writer.write(mark.on(scored))
    return mark


def _digest(run: str) -> str:
    """Return a digest of a run's recipe and of all files of its model, or of those of a model alone."""
    folder = RunFolder.of(run)
    model, others = folder.path, list[Path]()
    if not folder.is_model_alone:
        folder.read_recipe()
        model, others = folder.model, [folder.plan_file]
    files = (*others, *sorted(path for path in model.rglob("*") if path.is_file()))
    named = ((path.relative_to(folder.path).as_posix().encode(), file_sha256(path)) for path in files)
    return sha256(part for name, content in named for part in (name, bytes.fromhex(content)))


def _amount(rows: int, parts: int) -> str:
    return f"{counted(rows, 'row')} in {counted(parts, 'part')}"


def _rows(marks: Iterable[Mark]) -> int:
    return sum(mark.rows for mark in marks)
