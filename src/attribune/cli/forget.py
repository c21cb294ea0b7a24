"""``attribune forget``: a value is taken out of a run."""

from __future__ import annotations

import argparse
from typing import Any

from attribune.cli.arguments import add_places, add_run
from attribune.errors import ModelFolderError

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune forget runs/stars --attribute user --value u17
  attribune forget runs/stars --attribute user --value u17 u18"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "forget",
        help="take a value out of a run",
        description="Removes values of an attribute from a run: vectors and names in every model, predictions of their "
        "rows, checkpoints. Then all files are searched for them. Weights that all values share have learned from "
        "their rows too and stay as they are: only a training without these rows unlearns them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    parser.add_argument("--attribute", required=True, metavar="COL")
    parser.add_argument("--value", required=True, nargs="+", action="extend", metavar="VALUE")
    add_places(parser, encoding=False)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "; the same command does what is left")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.forgetting import forget

    quiet_libraries()
    reporter = ConsoleReporter()
    done = forget(options.run_folder, options.attribute, options.value, backbone=options.backbone)
    for folder in done.models:
        reporter.note(f"{folder}: vector and name removed from the model")
    if done.predictions:
        reporter.note(f"{done.predictions:,} rows of stored predictions removed")
    for folder in done.checkpoints:
        reporter.note(f"{folder}: removed")
    for note in done.notes:
        reporter.note(note)
    if done.places:
        raise ModelFolderError(
            f"the value is still found in {', '.join(done.places)}: look whether it means the same there, and remove it"
        )
    reporter.note(f"no file below {options.run_folder} has the value any more")
    reporter.note("weights that all values share stay as they are: only a training without the rows unlearns them")
