"""``attribune export``: a run's model for other programs, whole or for given values of its attributes."""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_backbone, add_encoding, add_run, add_verb
from attribune.apps.cli.output import open_console, show

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune export runs/stars --for user=u17 --output u17
  attribune export runs/stars --for user=u17 product=p3 --format onnx --output u17.onnx --check test.csv
  attribune export runs/stars --format onnx --output stars.onnx --check test.csv
  attribune export runs/stars --format torch --output stars.pt2"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "export",
        help="the model of a run for other programs, whole or for given values",
        description="Write the model of a run for other programs: as a folder without attributes for given values, "
        "which holds no other value of the vocabulary, or as a graph that onnxruntime or torch loads. What is written "
        "gives the run's logits to 1e-4, on rows of a table or at random; otherwise nothing is written.",
        examples=_EXAMPLES,
        run=_run,
        after_interrupt="; nothing was written",
    )
    add_run(parser)
    parser.add_argument(
        "--for",
        dest="assignments",
        nargs="*",
        metavar="NAME=VALUE",
        help="values to fix; attributes that are not named are missing. Without it attributes stay an input",
    )
    parser.add_argument(
        "--format",
        choices=("adapter", "onnx", "torch"),
        default="adapter",
        help="adapter: a folder for fixed values, of this library, or of peft for low-rank methods; onnx; torch: a "
        "program of torch.export",
    )
    parser.add_argument(
        "--output", metavar="PATH", help="folder or file to write; `exported` in the run's folder unless given"
    )
    parser.add_argument(
        "--check", metavar="DATA", help="table whose first 200 rows check the export (default: random rows)"
    )
    add_backbone(parser)
    add_encoding(parser)


def _run(options: argparse.Namespace) -> None:
    from attribune.export.export import export
    from attribune.schema.assignments import parse_assignments

    open_console()
    exported = export(
        options.run_folder,
        options.output,
        kind=options.format,
        assignments=None if options.assignments is None else parse_assignments(options.assignments),
        check=options.check,
        backbone=options.backbone,
        encoding=options.encoding,
    )
    rows = f"{exported.rows:,} {'rows of the table' if exported.from_table else 'rows at random'}"
    show(f"{exported.path}: {exported.description}\nlargest difference of a logit on {rows}: {exported.difference:.1e}")
