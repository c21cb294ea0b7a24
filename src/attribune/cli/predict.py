"""``attribune predict``: predictions and probabilities for new rows, of any number."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attribune.cli.arguments import add_places, add_run

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune predict runs/stars new.csv --output predictions.parquet
  attribune predict runs/stars new.jsonl --output predictions.jsonl
  attribune predict runs/stars january.csv february.csv --output predictions.csv
  attribune predict runs/stars reviews/ --output predictions
  attribune predict runs/stars reviews/ --output predictions --engine ray --workers 8"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "predict",
        help="predictions and probabilities for new rows",
        description="Adds predictions and probabilities to the columns of tables. Every row comes out, in order; rows "
        "without a text are scored as empty texts, values never seen in training as unknown. An output without an "
        "ending is a folder of Parquet files: after an interruption the same command goes on with what is missing.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    parser.add_argument(
        "data", metavar="DATA", nargs="+", help="CSV, TSV, JSONL or Parquet files, folders of them, or names on the hub"
    )
    parser.add_argument(
        "--output", required=True, metavar="PATH", help="ends in .csv, .tsv, .jsonl or .parquet, or is a folder"
    )
    add_places(parser)
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="of a folder: this process, or Ray: the cluster of RAY_ADDRESS, else this machine",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="of --engine ray; as many as there are GPUs, else cores, unless given"
    )
    parser.set_defaults(run=_run, after_interrupt=_after_interrupt)


def _after_interrupt(options: argparse.Namespace) -> str:
    if not Path(options.output).suffix:
        return f"; finished parts are kept: the same command goes on in {options.output}"
    return "; no output file was written"


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries, quiet_ray
    from attribune.evaluation.predict import predict

    quiet_libraries()
    reporter = ConsoleReporter()
    with quiet_ray() if options.engine == "ray" else nullcontext():
        rows = predict(
            options.run_folder,
            options.data,
            options.output,
            backbone=options.backbone,
            encoding=options.encoding,
            engine=options.engine,
            workers=options.workers,
            reporter=reporter,
        )
    if Path(options.output).suffix:  # of a folder it was said what is in it
        reporter.note(f"{rows:,} rows written to {options.output}")
