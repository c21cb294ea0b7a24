"""``attribune compare``: two runs on the same rows, with the paired bootstrap."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune compare runs/injector runs/adapter
  attribune compare runs/stars runs/stars/compare/none --json"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "compare",
        help="compare two runs on the same test rows",
        description="The difference of every metric of two runs, with a paired bootstrap over the test rows (the "
        "validation rows where a run has no test rows): 10,000 resamples, two-sided.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_a", metavar="RUN_A", help="folder of a run")
    parser.add_argument("run_b", metavar="RUN_B", help="folder of another run, on the same rows")
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import quiet_libraries
    from attribune.cli.output import show
    from attribune.evaluation.report import comparison_lines
    from attribune.evaluation.run import compare_runs

    quiet_libraries()
    pairs = compare_runs(options.run_a, options.run_b)
    show(json.dumps(pairs, indent=1) if options.json else "\n".join(comparison_lines(pairs)))
