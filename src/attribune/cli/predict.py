"""``attribune predict``: predictions and probabilities for new rows, of any number."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune predict runs/stars new.csv --output predictions.parquet
  attribune predict runs/stars new.jsonl --output predictions.jsonl"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "predict",
        help="predictions and probabilities for new rows",
        description="Adds predictions and probabilities to the columns of a table. Every row comes out, in order; rows "
        "without a text are scored as empty texts, values never seen in training as unknown.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_folder", metavar="RUN", help="folder that `attribune train` wrote")
    parser.add_argument("data", metavar="DATA", help="CSV, TSV, JSONL or Parquet file, or a name on the hub")
    parser.add_argument("--output", required=True, metavar="FILE", help="ends in .csv, .tsv, .jsonl or .parquet")
    parser.add_argument("--backbone", metavar="NAME_OR_DIR", help="where the backbone's weights are now")
    parser.add_argument("--encoding", help="of the file; found out unless given")
    parser.set_defaults(run=_run, after_interrupt=lambda _: "; no output file was written")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.evaluation.predict import predict

    quiet_libraries()
    reporter = ConsoleReporter()
    rows = predict(
        options.run_folder,
        options.data,
        options.output,
        backbone=options.backbone,
        encoding=options.encoding,
        reporter=reporter,
    )
    reporter.note(f"{rows:,} rows written to {options.output}")
