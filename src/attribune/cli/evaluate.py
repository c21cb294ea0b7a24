"""``attribune evaluate``: the metrics of a run on a table, and the same with every attribute hidden."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from attribune.cli.arguments import add_places, add_run, add_table

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune evaluate runs/stars test.csv
  attribune evaluate runs/stars test.csv --json > figures.json"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "evaluate",
        help="metrics of a run on a table, with and without the attributes",
        description="Metrics with 95 % intervals of a trained run on rows with labels, and the same with every "
        "attribute hidden: the difference is what the attributes do.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    add_table(parser)
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    add_places(parser)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.cli.output import show
    from attribune.evaluation.report import ResultRow, text_table
    from attribune.evaluation.run import evaluate

    quiet_libraries()
    result = evaluate(options.run_folder, options.data, backbone=options.backbone, encoding=options.encoding)
    reporter = ConsoleReporter()
    for note in result.notes:
        reporter.note(note)
    if options.json:
        figures = {name: {key: asdict(value) for key, value in row.items()} for name, row in result.metrics.items()}
        show(json.dumps({"rows": result.rows, "metrics": figures}, indent=1))
        return
    show(f"{result.rows:,} rows\n" + text_table([ResultRow(name=n, metrics=m) for n, m in result.metrics.items()]))
