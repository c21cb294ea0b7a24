"""Predict new rows, with probabilities.

Add predictions and probabilities to the columns of tables. Every row is written, in order. Rows without a text are
scored as empty texts; values not seen in training as unknown. An output without a file extension is a folder of
Parquet files: after an interruption, run the same command to continue with what is missing. With --text, predictions
for single texts are written to stdout.

Examples:
  attribune predict runs/stars --text "Strong, but clean." --attribute user=u17
  attribune predict runs/stars new.csv --output predictions.parquet
  attribune predict runs/stars new.jsonl --output predictions.jsonl
  attribune predict runs/stars january.csv february.csv --output predictions.csv
  attribune predict runs/stars texts.csv --panel user --output opinions.csv
  attribune predict runs/stars reviews/ --output predictions
  zcat reviews.csv.gz | attribune predict runs/stars - --output predictions.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from attribune.apps.cli.arguments import SEVERAL, add_reading, add_shared, add_verb, attribute_values, reading_of
from attribune.apps.cli.output import open_console, show, show_json
from attribune.core.wording import counted, one_line
from attribune.errors import ConfigError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "predict", __doc__, run=_run, after_interrupt=_after_interrupt)
    add = parser.add_argument
    add_shared(parser, "run_folder")
    tables = "CSV, JSON, Parquet, Arrow or Excel files, folders of them, - for stdin, or names on the hub"
    add_shared(parser, "data", nargs="*", help=tables)
    add("--text", **SEVERAL, metavar="TEXT", help="texts to predict, instead of tables")
    add_shared(parser, "--attribute", help="with --text: a value for every text; repeat the name for several values")
    add_shared(parser, "--json", help="with --text: write JSON to stdout")
    add("--output", metavar="PATH", help="file ending in .csv, .tsv, .jsonl or .parquet, or a folder")
    add_reading(parser)
    add_shared(parser, "--backbone", "--quantise")
    members = (
        "predict what several people would say of each text, and their panel: `all`, an attribute for all its values, "
        "or a table of members"
    )
    add("--panel", metavar="PANEL", help=members)
    add(
        "--escape-formulas",
        action="store_true",
        help="in .csv and .tsv, put ' before texts that spreadsheet programs would run as formulas",
    )


def _after_interrupt(options: argparse.Namespace) -> str:
    resumes = f"; finished parts are kept: run the same command again to continue in {options.output}"
    if options.output is None:
        return ""
    return "; no output file was written" if Path(options.output).suffix else resumes


def _run(options: argparse.Namespace) -> None:
    if options.text is not None:
        _show_texts(options)
        return
    _check_tables(options)
    from attribune.prediction.predict import predict

    console = open_console()
    rows = predict(
        options.run_folder,
        options.data,
        options.output,
        backbone=options.backbone,
        **reading_of(options).given(),
        escape_formulas=options.escape_formulas,
        panel=options.panel,
        quantise=options.quantise,
        reporter=console,
    )
    if Path(options.output).suffix:  # for a folder, `predict` has noted its parts
        console.note(f"{counted(rows, 'row')} written to {options.output}")


def _check_tables(options: argparse.Namespace) -> None:
    """Refuse a command that names no rows, or no place for their predictions."""
    if not options.data:
        raise ConfigError("there is nothing to predict: name a table, or pass a text with --text")
    if options.output is None:
        raise ConfigError("no output is named: name a file or a folder with --output; only --text writes to stdout")
    if options.attribute or options.json:
        what = "--attribute" if options.attribute else "--json"
        raise ConfigError(f"{what} is only for --text: leave it out; the values of a table are in its columns")


def _show_texts(options: argparse.Namespace) -> None:
    tables = {"a table": options.data, "--output": options.output, "--panel": options.panel}
    tables |= reading_of(options).words()
    if beside := [name for name, value in tables.items() if value]:
        raise ConfigError(f"{beside[0]} and --text cannot be combined, because --text writes to stdout: leave one out")
    values = attribute_values(options.attribute)
    from attribune.data.writing import finite
    from attribune.metrics.tables import text_cells
    from attribune.prediction.rows import predict_texts

    console = open_console()
    rows, notes = predict_texts(options.run_folder, options.text, values, backbone=options.backbone)
    console.notes(notes)
    if options.json:
        show_json([{name: finite(value) for name, value in row.items()} for row in rows], ensure_ascii=False)
        return
    shown = [[f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    names = list(rows[0])
    if len(rows) == 1:
        show("\n".join(f"{name}: {one_line(value)}" for name, value in zip(names, shown[0], strict=True)))
    else:
        show(text_cells([names, *shown]))
