"""``attribune describe``: what a run holds."""

from __future__ import annotations

import argparse
import json
from typing import Any

from attribune.cli.arguments import add_run

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune describe runs/stars
  attribune describe runs/stars --json
  attribune describe runs/stars --changes"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "describe",
        help="what a run holds: attributes, parameters, data, metrics",
        description="Attributes and vocabularies, parameters, backbone, data and metrics of a run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    parser.add_argument(
        "--changes", action="store_true", help="how far training moved each term of the backbone, layer by layer"
    )
    parser.add_argument("--backbone", metavar="DIR", help="for --changes: the pretrained weights, if they have moved")
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import quiet_libraries, results_text
    from attribune.cli.output import show
    from attribune.training.description import describe_run

    quiet_libraries()
    if options.changes:
        show(_changes(options.run_folder, backbone=options.backbone, as_json=options.json))
        return
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


def _changes(run: str, *, backbone: str | None, as_json: bool) -> str:
    """A line for each layer, a column for each term: mean absolute change of a number, in thousandths."""
    from dataclasses import asdict

    from attribune.evaluation.report import text_cells
    from attribune.evaluation.terms import term_changes

    found = term_changes(run, backbone=backbone)
    if as_json:
        return json.dumps([asdict(change) for change in found], indent=1)
    inside = [change for change in found if change.layer is not None]
    terms = list(dict.fromkeys(change.term for change in inside))
    values = {(change.layer, change.term): f"{1000 * change.change:.3f}" for change in inside}
    layers = sorted({change.layer for change in inside if change.layer is not None})
    lines = [["term", *(f"layer {layer}" for layer in layers)]]
    lines += [[term, *(values.get((layer, term), "") for layer in layers)] for term in terms]
    lines += [[change.term, f"{1000 * change.change:.3f}"] for change in found if change.layer is None]
    width = len(lines[0])
    table = text_cells([[*line, *([""] * (width - len(line)))] for line in lines])
    return f"mean absolute change of a number of the backbone, in thousandths\n{table}"
