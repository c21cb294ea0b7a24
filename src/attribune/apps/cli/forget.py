"""Remove values from a run.

Remove values of an attribute from a run: vectors and names in every model, predictions of their rows, checkpoints. Then
search all other files for them, and name those that have one, or that cannot be searched. Weights that all values share
have learned from the rows of these values too, and stay as they are: only a training without these rows unlearns them.

Examples:
  attribune forget runs/stars --attribute user --value u17
  attribune forget runs/stars --attribute user --value u17 u18
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import SEVERAL, add_shared, add_verb
from attribune.apps.cli.output import open_console
from attribune.errors import ModelFolderError


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "forget", __doc__, run=_run, after_interrupt="; run the same command again to finish")
    add_shared(parser, "run_folder")
    parser.add_argument("--attribute", required=True, metavar="COL", help="attribute of the values")
    parser.add_argument("--value", required=True, **SEVERAL, metavar="VALUE", help="values to remove")
    add_shared(parser, "--backbone")


def _run(options: argparse.Namespace) -> None:
    from attribune.values.forget import forget

    console = open_console()
    forgotten = forget(options.run_folder, options.attribute, options.value, backbone=options.backbone)
    console.notes(forgotten.done())
    if forgotten.faults:
        raise ModelFolderError("; ".join(forgotten.faults))
    others = "no other file" if forgotten.mentions else "no file"
    console.note(f"{others} below {options.run_folder} contains the value any more")
    console.note("weights that all values share stay as they are: only a training without the rows unlearns them")
