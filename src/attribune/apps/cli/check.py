"""Check a table, and print the command to train on it.

Guess which column is the text, the label, an attribute, an id or a date; count classes and the rows of each value; and
report what cannot help and what would inflate the scores. Nothing is written.

Examples:
  attribune check reviews.csv
  attribune check reviews.csv --text review --label stars --test test.csv
  zcat reviews.csv.gz | attribune check - --rows 100000
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import SEVERAL, add_reading, add_setting, add_shared, add_verb, reading_of
from attribune.apps.cli.output import open_console, show, show_json


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "check", __doc__, run=_run)
    add_shared(parser, "data")
    parser.add_argument("--text", **SEVERAL, metavar="COL", help="text columns, if the guess is wrong")
    parser.add_argument("--label", **SEVERAL, metavar="COL", help="label columns, if the guess is wrong")
    parser.add_argument("--test", metavar="FILE", help="test rows (default: those of the default split)")
    add_setting(parser, "data.missing")
    add_reading(parser)
    add_shared(parser, "--json")


def _run(options: argparse.Namespace) -> None:
    from attribune.data.checking.table_check import check

    open_console()
    checked = check(
        options.data,
        text=options.text,
        label=options.label,
        test=options.test,
        missing=options.missing,
        **reading_of(options).given(),
    )
    if options.json:
        show_json(checked.to_dict(), ensure_ascii=False)
    else:
        show(checked.text())
