"""Show what each attribute contributes, and the words that matter in a row.

Score the same labelled rows with other attributes. Shows what is lost when an attribute is hidden or takes the value of
another row, for frequent, rare and unseen values, and the values that move predictions most. For one row, shows the
predictions with other values, and the words that matter with and without its attributes.

Examples:
  attribune explain runs/stars test.csv
  attribune explain runs/stars test.csv --output explain.html
  attribune explain runs/stars test.csv --row 3 --as user=u17 --as user=u4 product=p3
  attribune explain runs/stars test.csv --json > explanation.json
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, table_of
from attribune.apps.cli.output import open_console, show, show_json
from attribune.errors import ConfigError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "explain", __doc__, run=_run)
    add = parser.add_argument
    add_shared(parser, "run_folder", "labelled_data")
    add("--row", type=int, metavar="N", help="also explain this row of the table, counted from 1")
    add(
        "--as",
        dest="instead",
        nargs="+",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="with --row: predict the row with these values; repeatable (default: the most frequent values)",
    )
    add(
        "--rare",
        type=int,
        default=10,
        metavar="N",
        help="a value with at most this many training rows is rare (default: 10)",
    )
    add("--top", type=int, default=10, metavar="N", help="number of values to list (default: 10)")
    add("--output", metavar="FILE.html", help="also write an HTML page")
    add_shared(parser, "--json", "--backbone")
    add_reading(parser)


def _run(options: argparse.Namespace) -> None:
    if options.instead and options.row is None:
        raise ConfigError("other values (--as) need a row: choose one with --row")
    table = table_of(options)
    from attribune.analysis.explain.wording import as_text
    from attribune.apps.report.explanation_page import explain
    from attribune.schema.schema import parse_assignments

    console = open_console()
    record = explain(
        options.run_folder,
        table,
        row=options.row,
        instead=[parse_assignments(words) for words in options.instead],
        rare=options.rare,
        top=options.top,
        output=options.output,
        backbone=options.backbone,
    )
    console.notes(record["notes"])
    if options.output is not None:
        console.note(f"written to {options.output}")
    if options.json:
        show_json(record, ensure_ascii=False)
    else:
        show(as_text(record))
