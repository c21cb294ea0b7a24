"""Compare runs on the same test rows.

Show the difference of the first run and each of the others in every metric, with a two-sided paired bootstrap of 10,000
resamples over the test rows, or over the validation rows if the runs do not have the same test rows, and say so.

Examples:
  attribune compare runs/injector runs/adapter
  attribune compare runs/injector runs/adapter runs/pln
  attribune compare runs/stars runs/stars/compare/none --json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import open_console, show, show_json


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "compare", __doc__, run=_run)
    parser.add_argument("run_a", metavar="RUN_A", help="folder of a run")
    parser.add_argument("others", metavar="RUN_B", nargs="+", help="folders of other runs, on the same rows")
    add_shared(parser, "--json")


def _run(options: argparse.Namespace) -> None:
    from attribune.analysis.evaluate import compare_scores
    from attribune.metrics.results import Comparison
    from attribune.metrics.tables import comparison_lines

    console = open_console()
    pairs = list[Comparison]()
    for other in options.others:
        found, notes = compare_scores(options.run_a, other)
        pairs += found
        for note in notes:
            console.note(note if len(options.others) == 1 else f"{other}: {note}")
    if options.json:
        show_json([asdict(pair) for pair in pairs])
    else:
        show("\n".join(comparison_lines(pairs)))
