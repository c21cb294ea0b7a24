"""Streamed prediction of tables into one file, or into a folder of parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from attribune.core.arguments import checked_arguments
from attribune.core.door import as_argument
from attribune.core.files import clear_drafts
from attribune.core.progress import Reporter
from attribune.data.file_options import FileOptions, Reading
from attribune.data.table_files import table_files
from attribune.data.tables import (
    Source,
    check_same_columns,
    check_stored,
    common_form,
    read_as_written,
    read_table,
    refuse_input_as_output,
    table_source_name,
)
from attribune.data.text_files import STDIN, is_text
from attribune.data.writing import TableWriter, open_writer
from attribune.errors import ConfigError, DataError
from attribune.models.predictor import Predictor, Quantisation
from attribune.prediction.parts import Job, PartsFolder, predict_parts
from attribune.prediction.rows import note_empty_texts, panel_rows, score_rows
from attribune.runs.loading import load_predictor
from attribune.schema import EncodingReport
from attribune.schema.number_marks import with_points
from attribune.values.panel import Panel

_ROWS = 4096


@checked_arguments
def predict(
    run: str | Path,
    data: Any,
    output: str | Path,
    *,
    backbone: str | Path | None = None,
    part_rows: int | None = None,
    escape_formulas: bool = False,
    panel: Any = None,
    quantise: Quantisation | None = None,
    reporter: Reporter | None = None,
    **reading: Unpack[Reading],
) -> int:
    """Write tables with their own columns and the model's predictions and probabilities.

    Args:
        run: folder of a run, of its model, or of a model alone, such as an exported one.
        data: anything `read_table` takes, or a list of files and of folders with files, which are concatenated.
        output: file to write; its suffix sets the format, and an earlier file is replaced when all rows are written.
            CSV has the delimiter and the decimals of the CSV file that is read.
            Without a suffix it is a folder of Parquet files of `part_rows` rows; parts that an earlier call with the
            same arguments wrote are kept.
        backbone: new location of the backbone's weights, if they were moved.
        part_rows: rows per part; by default 16,384, or the value with which the folder was started.
        panel: what `Panel.of` takes: predictions are those of a panel for each text, in one file.
        quantise: ``int8`` computes in int8, on CPUs; see `attribune.models.predictor.quantised`.
        escape_formulas: put an apostrophe before texts in CSV and TSV that spreadsheet programs run as formulas.
        **reading: how the tables are read, as in `read_table`.

    Returns:
        Number of rows.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    reporter, sources = reporter or Reporter(), data if isinstance(data, list | tuple) else [data]
    options = FileOptions(**reading)
    if options.rows is not None:
        reporter.note(f"at most the first {options.rows:,} rows of each table are read")
    if not sources:
        raise ConfigError("no table is given to predict: name a file")
    _check_options(output, part_rows=part_rows, escape_formulas=escape_formulas)
    if panel is not None and _is_folder(output):
        raise ConfigError(f"a panel writes one file: give an output with an ending, such as {output}.parquet")
    if _is_folder(output):
        job = Job(
            run=str(run),
            backbone=backbone,
            files=tuple(map(str, table_files(_paths(sources, output)))),
            reading=options,
            part_rows=part_rows or PartsFolder(Path(output)).part_rows(),
            output=str(output),
            quantise=quantise,
        )
        return predict_parts(job, reporter=reporter)
    load = partial(load_predictor, run, backbone=backbone, quantise=quantise)
    open_output = partial(open_writer, output, escape_formulas=escape_formulas)
    return _to_file(load, sources, output, open_output, panel, reading=options, reporter=reporter)


def _is_folder(output: str | Path) -> bool:
    """Whether an output is a folder of parts, which has no suffix."""
    return str(output) != "" and not Path(output).suffix


def _check_options(output: str | Path, *, part_rows: int | None, escape_formulas: bool) -> None:
    if part_rows is not None and part_rows < 1:
        raise ConfigError(f"{as_argument('part_rows', part_rows)}: give at least 1")
    if escape_formulas and _is_folder(output):
        raise ConfigError(
            f"{as_argument('escape_formulas')} is for .csv and .tsv; {output} is a folder of Parquet files"
        )
    if part_rows is not None and not _is_folder(output):
        raise ConfigError(
            f"{as_argument('part_rows', part_rows)} is for an output without an ending, a folder; {output} is one file"
        )


def _paths(sources: Sequence[Any], output: str | Path) -> list[str | Path]:
    for source in sources:
        if isinstance(source, str) and source == STDIN:
            raise ConfigError(
                f"the standard input cannot be predicted into the folder {output}, since it cannot be read again after "
                f"an interruption: give an output with an ending, such as {output}.parquet"
            )
        if not isinstance(source, str | Path):
            raise ConfigError(
                f"a {type(source).__name__} cannot be predicted into the folder {output}, which parts of files go to: "
                f"give an output with an ending, such as {output}.parquet"
            )
        if not is_text(str(source)):
            raise ConfigError(
                f"the name {str(source)!r} is not UTF-8, and cannot be noted in {output}: rename the file"
            )
    return list(sources)


def _to_file(
    load: Callable[[], Predictor],
    sources: Sequence[Source],
    output: str | Path,
    open_output: Callable[..., AbstractContextManager[TableWriter]],
    members: Any,
    *,
    reading: FileOptions,
    reporter: Reporter,
) -> int:
    files: list[Source] = []
    for source in sources:
        files += table_files([source]) if isinstance(source, str | Path) and Path(source).is_dir() else [source]
    refuse_input_as_output(output, files)
    clear_drafts(Path(output).parent, name=Path(output).name)
    form = common_form(files, reading) if Path(output).suffix.lower() in (".csv", ".tsv") else None
    with open_output(form=form) as writer:
        predictor = load()
        commas = () if form is None else form.commas
        read = read_as_written if commas else read_table
        tables = [(table_source_name(source), read(source, **reading.given())) for source in files]
        if not any(len(table) for _, table in tables):
            raise DataError(
                f"{tables[0][0]}: there are no rows to predict" if tables else "there is no table to predict"
            )
        schema = _common_schema([(name, table.features.arrow_schema) for name, table in tables])
        panel = None if members is None else Panel.of(predictor, members, **reading.beside(members).given())
        for name, table in tables if panel is None else ():
            predictor.check_columns(table.column_names, source=name)
        report = EncodingReport({})
        for name, table in tables:
            arrow, own = table.with_format("arrow"), EncodingReport({})
            for start in range(0, len(table), _ROWS):
                check_stored(table)
                written = arrow[start : start + _ROWS]
                rows = with_points(written, commas)
                if panel is None:
                    scored, counted = score_rows(predictor, rows, source=name, first_row=start + 1)
                else:
                    scored, counted = panel_rows(predictor, panel, rows, source=name, first_row=start + 1)
                for column in commas:
                    scored = scored.set_column(scored.column_names.index(column), column, written[column])
                own = own + counted
                writer.write(scored if len(tables) == 1 else _cast(scored, schema, name))
            note_empty_texts(own, name, reporter)
            report = report + own
    for line in report.lines():
        reporter.note(line)
    return sum(len(table) for _, table in tables)


def _common_schema(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the columns of the first table, each with a type that fits the values of all tables."""
    check_same_columns([(name, schema.names) for name, schema in schemas])
    first, common = schemas[0]
    for name, schema in schemas[1:]:
        for column in common.names:
            pair = [pa.schema([one.field(column)]) for one in (common, schema)]
            try:
                joined = pa.unify_schemas(pair, promote_options="permissive").field(0)
            except pa.ArrowException as error:
                raise DataError(
                    f"{name}: column {column!r} is {schema.field(column).type}, but {common.field(column).type} in "
                    f"{first}: convert one of them, or predict each file into an output of its own"
                ) from error
            common = common.set(common.get_field_index(column), joined)
    return common


def _cast(rows: pa.Table, schema: pa.Schema, source: str) -> pa.Table:
    """Return the rows with the column order and types of a schema; other columns follow."""
    added = [field for field in rows.schema if field.name not in schema.names]
    try:
        return rows.select([*schema.names, *(field.name for field in added)]).cast(pa.schema([*schema, *added]))
    except pa.ArrowException as error:
        raise DataError(
            f"{source}: a value does not fit the type that the other files have ({error}): convert the column, or "
            "predict each file into an output of its own"
        ) from error
