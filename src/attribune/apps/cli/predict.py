"""Predictions and probabilities for new rows.

Add predictions and probabilities to the columns of tables. Every row comes out, in order; rows without a text are
scored as empty texts, values never seen in training as unknown. An output without an ending is a folder of Parquet
files: after an interruption the same command goes on with what is missing.

Examples:
  attribune predict runs/stars new.csv --output predictions.parquet
  attribune predict runs/stars new.jsonl --output predictions.jsonl
  attribune predict runs/stars january.csv february.csv --output predictions.csv
  attribune predict runs/stars texts.csv --panel user --output opinions.csv
  attribune predict runs/stars reviews/ --output predictions
  attribune predict runs/stars reviews/ --output predictions --engine ray --workers 8
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import open_console

__all__ = ["add_parser"]


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "predict", __doc__, run=_run, after_interrupt=_after_interrupt)
    add = parser.add_argument
    add_shared(parser, "run_folder")
    tables = "CSV, TSV, JSONL or Parquet files, folders of them, or names on the hub"
    add_shared(parser, "data", nargs="+", help=tables)
    add("--output", required=True, metavar="PATH", help="file that ends in .csv, .tsv, .jsonl or .parquet, or a folder")
    add_shared(parser, "--backbone", "--encoding", "--quantise")
    add(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="what fills a folder: this process, or Ray: the cluster of RAY_ADDRESS, else this machine",
    )
    add("--workers", type=int, metavar="N", help="with --engine ray (default: one per GPU, or per core without one)")
    members = (
        "what each of several people would say, together: `all`, an attribute for all its values, or a table of members"
    )
    add("--panel", metavar="PANEL", help=members)
    add(
        "--escape-formulas",
        action="store_true",
        help="put ' before texts that spreadsheet programs would run as formulas, in .csv and .tsv",
    )


def _after_interrupt(options: argparse.Namespace) -> str:
    resumes = f"; finished parts are kept: the same command goes on in {options.output}"
    return "; no output file was written" if Path(options.output).suffix else resumes


def _run(options: argparse.Namespace) -> None:
    from attribune.core.console import quiet_ray
    from attribune.prediction.predict import predict

    console = open_console()
    with quiet_ray() if options.engine == "ray" else nullcontext():
        rows = predict(
            options.run_folder,
            options.data,
            options.output,
            backbone=options.backbone,
            encoding=options.encoding,
            engine=options.engine,
            workers=options.workers,
            escape_formulas=options.escape_formulas,
            panel=options.panel,
            quantise=options.quantise,
            reporter=console,
        )
    if Path(options.output).suffix:  # for a folder, `predict` has noted its parts
        console.note(f"{rows:,} rows written to {options.output}")
