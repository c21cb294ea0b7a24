"""Evaluate a run on a table, with and without attributes.

Show the metrics of a trained run on labelled rows, with 95 % intervals, and the same with every attribute hidden. The
difference shows what the attributes contribute.

Examples:
  attribune evaluate runs/stars
  attribune evaluate runs/stars test.csv
  attribune evaluate runs/stars test.csv --json > figures.json
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, table_of
from attribune.apps.cli.output import open_console, show, show_json


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "evaluate", __doc__, run=_run)
    add_shared(parser, "run_folder", "labelled_data", "--json", "--backbone", "--quantise")
    add_reading(parser)


def _run(options: argparse.Namespace) -> None:
    from attribune.analysis.evaluate import evaluate

    console = open_console()
    result = evaluate(
        options.run_folder,
        table_of(options),
        backbone=options.backbone,
        quantise=options.quantise,
    )
    console.notes(result.notes)
    if options.json:
        metrics = {name: {key: asdict(value) for key, value in row.items()} for name, row in result.metrics.items()}
        judgements = {name: {key: asdict(one) for key, one in row.items()} for name, row in result.judgements.items()}
        comparisons = [asdict(pair) for pair in result.comparisons]
        shown = {"rows": result.rows, "metrics": metrics, "comparisons": comparisons}
        shown["verdict"] = result.verdict.model_dump(mode="json")
        shown["findings"] = [finding.to_dict() for finding in result.findings]
        show_json(shown | ({"judgements": judgements} if judgements else {}))
    else:
        show(result.text())
