"""``attribune describe``: what a run holds."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune describe runs/stars
  attribune describe runs/stars --json"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "describe",
        help="what a run holds: attributes, parameters, data, metrics",
        description="Attributes and vocabularies, parameters, backbone, data and metrics of a run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_folder", metavar="RUN", help="folder that `attribune train` wrote")
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import quiet_libraries, results_text
    from attribune.cli.output import show
    from attribune.training.description import describe_run

    quiet_libraries()
    description = describe_run(options.run_folder)
    if options.json:
        show(json.dumps(description, indent=1))
        return
    results = description.pop("results", None)
    attributes = description.pop("attributes")
    lines = [f"{key}: {value}" for key, value in description.items()]
    for item in attributes:
        common = ", ".join(f"{value} ({count:,})" for value, count in item["most_common"]) or "not listed"
        lines.append(
            f"attribute {item['name']} ({item['kind']}): {item['ids']:,} ids in {item['slots']} slots, "
            f"unseen: {item['unseen']}; most common: {common}"
        )
    show("\n".join(lines))
    if results is not None:
        show("\n" + results_text(results))
