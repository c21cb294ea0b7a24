"""Add values that a run has not seen, from a few rows.

Learn a vector for every value of DATA that the run does not know, from the labelled rows of the value. Nothing else
changes: predictions for known values stay the same to the bit. If the values of an attribute were described in
training, --values describes new ones, with or without rows.

Examples:
  attribune enrol runs/stars new_users.csv
  attribune enrol runs/stars new_users.csv --attributes user --min-rows 3
  attribune enrol runs/stars --values user=new_users.csv
  attribune enrol runs/stars --undo
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from attribune.apps.cli.arguments import SEVERAL, add_reading, add_shared, add_verb, reading_of
from attribune.apps.cli.output import open_console, show, show_json
from attribune.apps.cli.recipe_flags import value_files
from attribune.errors import ConfigError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "enrol", __doc__, run=_run, after_interrupt="; the run is unchanged")
    add = parser.add_argument
    add_shared(parser, "run_folder", help="run folder that `attribune train` wrote; its model is replaced")
    add_shared(parser, "data", nargs="?")
    add("--undo", action="store_true", help="remove the values that were added last")
    add("--attributes", **SEVERAL, metavar="COL", help="attributes whose new values are added (default: all)")
    add("--values", **SEVERAL, metavar="COL=FILE", help="tables that describe new values")
    add("--min-rows", type=int, metavar="N", help="minimum number of rows of a value (default: 1)")
    add("--steps", type=int, metavar="N", help="maximum number of L-BFGS steps, where they are needed (default: 20)")
    prior = "weight of the prior that new values resemble the known ones (default: 1)"
    add("--prior", type=float, metavar="X", help=prior)
    add_shared(parser, "--json", "--backbone")
    add_reading(parser)


def _run(options: argparse.Namespace) -> None:
    settings = {name: getattr(options, name) for name in ("min_rows", "steps", "prior")}
    settings = {name: value for name, value in settings.items() if value is not None}
    if options.undo and (options.data is not None or options.attributes or options.values or settings):
        raise ConfigError("--undo removes the values that were added last: leave out DATA and the other options")
    tables = value_files(options.values or [])
    if options.data is None and not tables and not options.undo:
        raise ConfigError("no rows are given: name a table with rows of the new values, --values, or --undo")
    from attribune.values.enrol import enrol

    console = open_console()
    if options.undo:
        console.notes(enrol(options.run_folder, undo=True, backbone=options.backbone).notes())
        return
    enrolled = enrol(
        options.run_folder,
        options.data,
        attributes=options.attributes,
        values=tables,
        backbone=options.backbone,
        reporter=console,
        **settings,
        **reading_of(options).given(),
    )
    if options.json:
        show_json({**asdict(enrolled), "skipped": dict(enrolled.skipped)})
        return
    show(enrolled.text())
    console.notes(enrolled.notes())
    count, seconds = len(enrolled.values), enrolled.seconds
    console.note(f"values added: {count:,}, in {seconds:.1f} s, {seconds / count:.2f} s each; --undo removes them")
