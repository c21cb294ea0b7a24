"""Write a page about a run: learning curves, confusion matrix, calibration, metrics by group of rows.

Write one HTML file that loads nothing from elsewhere. It shows learning curves, the confusion matrix, calibration, and
the main metric for frequent and rare values, for short and long texts, and by value. If several people judge a text, it
also shows each judge and the texts on which they disagree. Each part has a sentence that explains it. Without DATA, the
page covers the run's own test rows, which are not scored again.

Examples:
  attribune report runs/stars
  attribune report runs/stars test.csv --output test.html
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, table_of
from attribune.apps.cli.output import open_console, show


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "report", __doc__, run=_run)
    add_shared(parser, "run_folder")
    add_shared(parser, "data", nargs="?")
    parser.add_argument(
        "--output", metavar="FILE.html", help="HTML file to write (default: report.html in the run folder)"
    )
    add_shared(parser, "--backbone")
    add_reading(parser)


def _run(options: argparse.Namespace) -> None:
    from attribune.apps.report.run_page import report

    console = open_console()
    data, output, backbone = table_of(options), options.output, options.backbone
    path = report(options.run_folder, data, output=output, backbone=backbone, reporter=console)
    show(f"the page is {path}")
