"""``attribune report``: the page of a run."""

from __future__ import annotations

import argparse
from typing import Any

from attribune.cli.arguments import add_places, add_run, add_table

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune report runs/stars
  attribune report runs/stars test.csv --output test.html"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "report",
        help="a page about a run: learning curves, confusions, calibration, and for which rows it is right",
        description="Writes one HTML file, which loads nothing from elsewhere: learning curves, what is taken for "
        "what, whether the probabilities are right, and the main metric for frequent and rare values, for short and "
        "long texts and by value, each with a sentence that says what it shows. Without DATA it is about the run's own "
        "test rows, which are not scored again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    add_table(parser, optional=True)
    parser.add_argument("--output", metavar="FILE.html", help="report.html in the folder unless given")
    add_places(parser)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.cli.output import show
    from attribune.report.run import write_run_page

    quiet_libraries()
    path, notes = write_run_page(
        options.run_folder, options.data, output=options.output, backbone=options.backbone, encoding=options.encoding
    )
    reporter = ConsoleReporter()
    for note in notes:
        reporter.note(note)
    show(f"the page is {path}")
