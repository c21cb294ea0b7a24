"""``attribune explain``: what the attributes of a run contribute, on labelled rows and in one."""

from __future__ import annotations

import argparse
import json
from typing import Any

from attribune.cli.arguments import add_places, add_run, add_table

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune explain runs/stars test.csv
  attribune explain runs/stars test.csv --output explain.html
  attribune explain runs/stars test.csv --row 3 --as user=u17 --as user=u4 product=p3
  attribune explain runs/stars test.csv --json > explanation.json"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "explain",
        help="what each attribute contributes, and the words of a row with and without it",
        description="Scores the same labelled rows with other attributes: what is lost when one is hidden or that of "
        "another row, for frequent, rare and unseen values; the values that move predictions most; and for one row "
        "the prediction as if others had written it, and the words that matter with and without its attributes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    add_table(parser)
    parser.add_argument("--row", type=int, metavar="N", help="number of a row of the table, from 1, to explain as well")
    parser.add_argument(
        "--as",
        dest="instead",
        nargs="+",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for --row: other values, once for each prediction; the most frequent ones unless given",
    )
    parser.add_argument("--rare", type=int, default=10, metavar="N", help="training rows of a rare value at most (10)")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="values that are listed (10)")
    parser.add_argument("--output", metavar="FILE.html", help="write a page as well")
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    add_places(parser)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.cli.output import show
    from attribune.explaining.run import explain
    from attribune.explaining.wording import as_text
    from attribune.report.explanation import write_explanation
    from attribune.schema.given import read_given

    quiet_libraries()
    record = explain(
        options.run_folder,
        options.data,
        row=options.row,
        instead=[read_given(words) for words in options.instead],
        rare=options.rare,
        most=options.top,
        backbone=options.backbone,
        encoding=options.encoding,
    )
    reporter = ConsoleReporter()
    for note in record["notes"]:
        reporter.note(note)
    if options.output is not None:
        reporter.note(f"written to {write_explanation(record, options.output)}")
    show(json.dumps(record, indent=1, ensure_ascii=False) if options.json else as_text(record))
