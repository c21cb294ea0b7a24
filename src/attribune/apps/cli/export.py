"""Export the model of a run for other programs, whole or for given values.

Write the model of a run for other programs: as a folder without attributes for given values, which contains no other
value of the vocabulary, or as a graph that onnxruntime or torch loads. The export is checked on rows of a table or on
random input; if it does not give the run's logits to 1e-4, nothing is written.

Examples:
  attribune export runs/stars --for user=u17 --output u17
  attribune export runs/stars --for user=u17 product=p3 --format onnx --output u17.onnx --check test.csv
  attribune export runs/stars --format onnx --output stars.onnx --check test.csv
  attribune export runs/stars --format onnx --quantise int8 --output small.onnx --check test.csv
  attribune export runs/stars --format torch --output stars.pt2
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, table_of
from attribune.apps.cli.output import open_console, show


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "export", __doc__, run=_run, after_interrupt="; nothing was written")
    add = parser.add_argument
    add_shared(parser, "run_folder")
    add(
        "--for",
        dest="assignments",
        nargs="*",
        metavar="NAME=VALUE",
        help="values to fix; attributes not named here count as missing. Without --for, attributes stay an input",
    )
    add(
        "--format",
        dest="kind",
        choices=("adapter", "onnx", "torch"),
        default="adapter",
        help="adapter: a folder for fixed values, for this library, or for peft with low-rank methods; onnx; torch: a "
        "program of torch.export",
    )
    add("--output", metavar="PATH", help="folder or file to write (default: `exported` in the run folder)")
    add(
        "--check", metavar="DATA", help="table whose first 200 rows are used to check the export (default: random rows)"
    )
    add_shared(parser, "--backbone")
    add_reading(parser)
    add_shared(parser, "--quantise", help="round the weights of --format onnx to int8: smaller, and faster on CPUs")


def _run(options: argparse.Namespace) -> None:
    from attribune.export.export import export
    from attribune.schema.schema import parse_assignments

    open_console()
    exported = export(
        options.run_folder,
        options.output,
        kind=options.kind,
        assignments=None if options.assignments is None else parse_assignments(options.assignments),
        check=table_of(options, "check"),
        backbone=options.backbone,
        quantise=options.quantise,
    )
    rows = f"{exported.rows:,} {'rows of the table' if exported.from_table else 'rows at random'}"
    number = "logit" if exported.quantise is None else "probability"
    difference = f"largest difference of a {number} on {rows}: {exported.difference:.1e}"
    show(f"{exported.path}: {exported.description}\n{difference}")
