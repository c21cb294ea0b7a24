"""``attribune export``: a run's model for others, whole or for given values of its attributes."""

from __future__ import annotations

import argparse
from typing import Any

from attribune.cli.arguments import add_places, add_run

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune export runs/stars --for user=u17 --output u17
  attribune export runs/stars --for user=u17 product=p3 --format onnx --output u17.onnx --check test.csv
  attribune export runs/stars --format onnx --output stars.onnx --check test.csv
  attribune export runs/stars --format torch --output stars.pt2"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "export",
        help="the model of a run for other programs, whole or for given values",
        description="Writes the model of a run for others: as a folder without attributes for given values, which "
        "holds no other value of the vocabulary, or as a graph that onnxruntime or torch loads. What is written "
        "gives the run's logits to 1e-4, on rows of a table or at random; otherwise nothing is written.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser)
    parser.add_argument(
        "--for",
        dest="given",
        nargs="*",
        metavar="NAME=VALUE",
        help="values that are fixed; attributes that are not named are missing. Without it attributes stay an input",
    )
    parser.add_argument(
        "--format",
        choices=("adapter", "onnx", "torch"),
        default="adapter",
        help="adapter: a folder for fixed values, of this library, or of peft for low-rank methods; onnx; torch: the "
        "program of torch.export",
    )
    parser.add_argument("--output", metavar="PATH", help="folder, or file; `exported` in the run's folder unless given")
    parser.add_argument("--check", metavar="DATA", help="a table whose first 200 rows check the export")
    add_places(parser)
    parser.set_defaults(run=_run, after_interrupt=lambda _: "; nothing was written")


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import quiet_libraries
    from attribune.cli.output import show
    from attribune.exporting.run import export
    from attribune.schema.given import read_given

    quiet_libraries()
    done = export(
        options.run_folder,
        options.output,
        kind=options.format,
        given=None if options.given is None else read_given(options.given),
        check=options.check,
        backbone=options.backbone,
        encoding=options.encoding,
    )
    rows = f"{done.rows:,} rows of the table" if done.real else f"{done.rows:,} rows at random"
    show(f"{done.path}: {done.what}\nlargest difference of a logit on {rows}: {done.difference:.1e}")
