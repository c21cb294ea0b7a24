"""Choose the texts that a person should judge next.

Choose the texts of DATA whose answers would tell most about a value, such as a person who has just begun to judge. Each
text is chosen by how much its answer is expected to lower the loss on the other texts of DATA, given the texts chosen
before it.

Examples:
  attribune next runs/stars texts.csv --for user=new
  attribune next runs/stars texts.csv --for user=u17 --count 5 --json
"""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, table_of
from attribune.apps.cli.output import show, show_json
from attribune.errors import ConfigError

_WIDTH = 80  # of a text that is shown


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "next", __doc__, run=_run)
    add = parser.add_argument
    add_shared(parser, "run_folder", "data")
    add("--for", dest="assignment", required=True, metavar="NAME=VALUE", help="value to ask for, known or new")
    add("--count", type=int, default=10, metavar="N", help="number of texts to choose (default: 10)")
    add_shared(parser, "--json", "--backbone")
    add_reading(parser)


def _run(options: argparse.Namespace) -> None:
    if options.count < 1:
        raise ConfigError(f"--count {options.count}: give at least 1")
    from attribune.schema.schema import parse_assignments

    ((name, values),) = parse_assignments([options.assignment]).items()
    from attribune.metrics.tables import text_cells
    from attribune.values.next_texts import next_texts

    found = next_texts(
        options.run_folder,
        table_of(options),
        attribute=name,
        value=values[0],
        count=options.count,
        backbone=options.backbone,
    )
    if options.json:
        show_json([asdict(text) for text in found], ensure_ascii=False)
        return
    largest = max((text.gain for text in found), default=0.0)
    decimals = 5 if largest <= 0 else max(5, 1 - math.floor(math.log10(largest)))
    cells = [[str(text.row), f"{text.gain:.{decimals}f}", " ".join(text.text.split())[:_WIDTH]] for text in found]
    show(text_cells([["row", "gain", "text"], *cells]))
