"""Prediction of whole tables, streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from attribune.data.tables import read_table, table_source_name
from attribune.data.writing import open_writer, prediction_array
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.schema import EncodingReport
from attribune.training.folder import load_run
from attribune.training.progress import Reporter

__all__ = ["predict"]

_ROWS = 4096


def predict(
    run: str | Path,
    data: Any,
    output: str | Path,
    *,
    backbone: str | None = None,
    encoding: str | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Write a table with its own columns and the model's predictions and probabilities.

    Args:
        run: folder of a finished run.
        data: anything `read_table` takes.
        output: file to write; its ending says the format. An earlier file is replaced when all rows are written.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the input file.
        reporter: is told what was counted.

    Returns:
        Number of rows.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    if isinstance(data, str | Path) and Path(output).exists() and Path(data).exists() and Path(output).samefile(data):
        raise ConfigError(f"{output} is the table that is read: choose another output file")
    reporter = reporter or Reporter()
    with open_writer(output) as writer:
        _, predictor = load_run(run, backbone=backbone)
        table = read_table(data, encoding=encoding)
        source = table_source_name(data)
        predictor.check_columns(table.column_names, source=source)
        report = EncodingReport({})
        arrow = table.with_format("arrow")
        for start in range(0, len(table), _ROWS):
            rows = arrow[start : start + _ROWS]
            with numbered_in_file(range(len(table)), source):
                logits, counted = predictor.logits(rows, first_row=start + 1)
            report = report + counted
            writer.write(_with_columns(rows, predictor.task.decode(logits).columns()))
    for line in report.lines():
        reporter.note(line)
    return len(table)


def _with_columns(rows: pa.Table, columns: dict[str, Any]) -> pa.Table:
    for name, values in columns.items():
        if name in rows.column_names:
            raise DataError(f"the input has a column {name!r} already, which the prediction would replace: rename it")
        rows = rows.append_column(name, prediction_array(values))
    return rows
