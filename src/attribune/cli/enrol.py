"""``attribune enrol``: values that a run has not seen, learned from a few rows."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from attribune.cli.arguments import add_places, add_run, add_table
from attribune.errors import ConfigError

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune enrol runs/stars new_users.csv
  attribune enrol runs/stars new_users.csv --attributes user --min-rows 3
  attribune enrol runs/stars --undo"""
_SHOWN = 20


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "enrol",
        help="add values that a run has not seen, from a few rows",
        description="Learns a vector for every value of DATA that the run does not know, from the value's rows with "
        "labels, with everything else as it is: predictions for the values that it knows stay the same to the bit.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser, rest="; its model is replaced")
    add_table(parser, optional=True)
    parser.add_argument("--undo", action="store_true", help="take the values that were added last away again")
    parser.add_argument(
        "--attributes", nargs="+", action="extend", metavar="COL", help="whose values are added (default: all)"
    )
    parser.add_argument("--min-rows", type=int, metavar="N", help="of a value that is added (default: 1)")
    parser.add_argument("--steps", type=int, metavar="N", help="of learning, at most (default: 20)")
    parser.add_argument(
        "--prior", type=float, metavar="X", help="how strongly values are held to what others are like (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    add_places(parser)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "; the run is as it was")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.cli.output import show
    from attribune.enrolment import EnrolSettings, enrol, undo_enrolment

    quiet_libraries()
    reporter = ConsoleReporter()
    chosen = {name: getattr(options, name) for name in ("min_rows", "steps", "prior")}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if options.undo:
        if options.data is not None or options.attributes or chosen:
            raise ConfigError("--undo takes back what was added last: leave DATA and the other options out")
        values = undo_enrolment(options.run_folder, backbone=options.backbone)
        reporter.note(f"{len(values):,} values taken back; the model is what it was before they were added")
        return
    if options.data is None:
        raise ConfigError("no rows are given: name a table with rows of the new values, or --undo")
    found = enrol(
        options.run_folder,
        options.data,
        attributes=options.attributes,
        settings=EnrolSettings(**chosen),
        backbone=options.backbone,
        encoding=options.encoding,
        reporter=reporter,
    )
    if options.json:
        show(json.dumps({**asdict(found), "skipped": dict(found.skipped)}, indent=1))
        return
    lines = [f"{'attribute':<16} {'value':<32} {'rows':>6}  loss of these rows, before and after"]
    for value in found.values[:_SHOWN]:
        losses = f"{value.loss_before:.3f}  {value.loss_after:.3f}"
        lines.append(f"{value.attribute:<16.16} {value.value:<32.32} {value.rows:>6,}  {losses}")
    if len(found.values) > _SHOWN:
        lines.append(f"and {len(found.values) - _SHOWN:,} more")
    show("\n".join(lines))
    for name, count in found.skipped.items():
        if count:
            reporter.note(f"attribute {name!r}: {count:,} new values have too few rows and stay unknown")
    each = found.seconds / len(found.values)
    reporter.note(f"{len(found.values):,} values added in {found.seconds:.1f} s, {each:.2f} s each; --undo takes back")
