"""Describe a run: attributes, parameters, data, metrics.

Show attributes and vocabularies, parameters, backbone, data and metrics of a run.

Examples:
  attribune describe runs/stars
  attribune describe runs/stars --json
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import open_console, results_text, show, show_json, wrapped_table


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "describe", __doc__, run=_run)
    add_shared(parser, "run_folder", "--json")


def _run(options: argparse.Namespace) -> None:
    from attribune.runs.card import describe_run

    open_console()
    description = describe_run(options.run_folder)
    if options.json:
        show_json(description)
        return
    has_results = description.pop("results", None) is not None
    attributes = description.pop("attributes")
    blocks = [wrapped_table(_facts(description), has_head=False)]
    if attributes:
        blocks += [_attribute_table(attributes), wrapped_table(_common(attributes))]
    if has_results:
        blocks.append(results_text(options.run_folder))
    show("\n\n".join(blocks))


def _facts(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the description as lines of a name and a text; the options of the method have lines of their own."""
    method = dict(description.pop("method"))
    facts = {"state": description.pop("state"), "method": method.pop("name"), "method options": method or "none"}
    return [(name.replace("_", " "), _text(value)) for name, value in (facts | description).items()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(option)}" for name, option in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "none" if value is None else str(value)


def _attribute_table(attributes: list[dict[str, Any]]) -> str:
    from attribune.metrics.tables import text_cells

    lines = [["attribute", "kind", "unseen values", "ids", "slots"]]
    lines += [
        [item["name"], item["kind"], item["unseen"], f"{item['ids']:,}", str(item["slots"])] for item in attributes
    ]
    return text_cells(lines, left=3)


def _common(attributes: list[dict[str, Any]]) -> list[list[str]]:
    """Return the most common values of each attribute, with their training rows."""
    lines = [["attribute", "most common values, with training rows"]]
    for item in attributes:
        common = ", ".join(f"{value} ({count:,})" for value, count in item["most_common"])
        lines.append([item["name"], common or "not listed"])
    return lines
