"""Predictions beside the columns of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from attribune.core.progress import Reporter
from attribune.data.writing import prediction_array, prediction_field
from attribune.errors import DataError, numbered_in_file
from attribune.models.predictor import Predictor
from attribune.models.row_inputs import RowInput, plain_value, shared_values
from attribune.runs.loading import load_predictor
from attribune.schema import EncodingReport
from attribune.schema.attributes import NoNumberError
from attribune.values.panel import Panel


def score_rows(predictor: Predictor, rows: pa.Table, *, source: str, first_row: int) -> tuple[pa.Table, EncodingReport]:
    """Append predictions and probabilities to rows of a file; returns them with the report on the attributes.

    Args:
        first_row: number of the first row in the file, from 1.

    Raises:
        DataError: naming file and row or column of a value that cannot be used.
    """
    predictor.check_columns(rows.column_names, source=source)
    with numbered_in_file(range(first_row - 1 + len(rows)), source):
        logits, report = predictor.logits(rows, first_row=first_row)
    decoded = predictor.task.decode(logits)
    return _with_columns(rows, decoded.columns(), spaced=decoded.spaced, source=source), report


def note_empty_texts(report: EncodingReport, source: str, reporter: Reporter) -> None:
    """Say how many rows of a file have no text, if any has none."""
    if words := report.rows_without_text:
        reporter.note(f"{source}: {words}: such a prediction is not read from a text")


def panel_rows(
    predictor: Predictor, panel: Panel, rows: pa.Table, *, source: str, first_row: int
) -> tuple[pa.Table, EncodingReport]:
    """Append what a panel says of the rows' texts; arguments and errors are those of `score_rows`."""
    with numbered_in_file(range(first_row - 1 + len(rows)), source):
        encoded = panel.encode(predictor, rows, first_row=first_row, source=source)
    report = encoded.report.with_empty(encoded.empty, first_row=first_row)
    return _with_columns(rows, panel.ask(predictor, encoded), spaced=(), source=source), report


def _with_columns(rows: pa.Table, columns: Mapping[str, Any], *, spaced: Sequence[str], source: str) -> pa.Table:
    for name, values in columns.items():
        if name in rows.column_names:
            raise DataError(f"{source} has a column {name!r} already, which the prediction would replace: rename it")
        column = prediction_array(values)
        rows = rows.append_column(prediction_field(name, column, spaced=name in spaced), column)
    return rows


def predict_texts(
    run: str | Path, texts: Sequence[str], attributes: Mapping[str, Any], *, backbone: str | Path | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the prediction for each text, by column name, and notes about unknown values.

    Args:
        attributes: values that all texts have.
        backbone: new location of the backbone's weights, if they were moved.

    Raises:
        AttribuneError: naming the attribute or value and the cure.
    """
    predictor = load_predictor(run, backbone=backbone)
    given = RowInput.read(list(texts), predictor.row_names, shared_values(attributes, len(texts)))
    try:
        logits, report = predictor.logits(given.columns)
    except NoNumberError as error:  # all texts have the same values
        raise error.of_one_value() from error
    columns = predictor.task.decode(logits).columns()
    rows = [{name: plain_value(values[row]) for name, values in columns.items()} for row in range(len(texts))]
    return rows, report.lines()
