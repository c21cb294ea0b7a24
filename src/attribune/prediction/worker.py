"""Rows with their predictions: how they are scored, and how a part of a file is scored and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from attribune.data.writing import open_writer, prediction_array
from attribune.errors import DataError, numbered_in_file
from attribune.models.predictor import Predictor
from attribune.prediction.parts import Mark, PartsFolder
from attribune.prediction.reading import FilePart, Job
from attribune.runs.folder import load_run
from attribune.schema import EncodingReport

__all__ = ["PartScorer", "score_rows"]


class PartScorer:
    """Scores parts with a run and writes them.

    Raises:
        ModelFolderError: for a folder that is no run, or whose model is missing or damaged.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._folder = job, PartsFolder(Path(job.output))
        _, self._predictor = load_run(job.run, backbone=job.backbone)

    def score(self, part: FilePart) -> Mark:
        """Score a part and write it, unless it is there; returns its mark.

        Raises:
            DataError: naming file and row or column of what cannot be scored, or a file that cannot be written.
        """
        path = self._folder.part(part.file, part.first_row)
        existing = Mark.of(path)
        if existing is not None:
            return existing
        source = self._job.files[part.file - 1]
        scored, report = score_rows(self._predictor, part.rows, source=source, first_row=part.first_row)
        mark = Mark(
            file=part.file,
            first_row=part.first_row,
            rows=len(part.rows),
            last=part.last,
            columns=tuple(part.rows.column_names),
            report=report,
        )
        with open_writer(path) as writer:
            writer.write(mark.on(scored))
        return mark


def score_rows(predictor: Predictor, rows: pa.Table, *, source: str, first_row: int) -> tuple[pa.Table, EncodingReport]:
    """Score rows of a file.

    Args:
        first_row: number of the first row in the file, from 1.

    Returns:
        The rows with predictions and probabilities beside their own columns, and what happened to the attributes.

    Raises:
        DataError: naming file and row or column of what cannot be scored.
    """
    predictor.check_columns(rows.column_names, source=source)
    with numbered_in_file(range(first_row - 1 + len(rows)), source):
        logits, report = predictor.logits(rows, first_row=first_row)
    return _with_columns(rows, predictor.task.decode(logits).columns(), source), report


def _with_columns(rows: pa.Table, columns: dict[str, Any], source: str) -> pa.Table:
    for name, values in columns.items():
        if name in rows.column_names:
            raise DataError(f"{source} has a column {name!r} already, which the prediction would replace: rename it")
        rows = rows.append_column(name, prediction_array(values))
    return rows
