"""``attribune generate``: texts written by attributes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from attribune.cli.arguments import add_places, add_run, add_table
from attribune.errors import ConfigError

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune generate runs/quotes --attribute verdict=fresh --attribute critic=c3
  attribune generate runs/quotes --attribute verdict=rotten --sample --top-p 0.9 --n 5 --seed 1
  attribune generate runs/quotes new.csv --beams 4 --output quotes.jsonl"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "generate",
        help="texts written by attributes",
        description="Writes texts with a run of `--task generation`, one JSON object a line: for the attributes that "
        "are given, or for every row of a table with the columns of prompt and attributes. The likeliest token follows "
        "each time, unless --sample or --beams says otherwise.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run(parser, rest=" with --task generation")
    add_table(parser, optional=True)
    parser.add_argument(
        "--prompt", metavar="TEXT", help="read before the text; what the text begins with, for a run without a prompt"
    )
    parser.add_argument(
        "--attribute",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for every text; named again it has several values",
    )
    parser.add_argument("--sample", action="store_true", help="draw tokens at random")
    parser.add_argument("--temperature", type=float, default=1.0, metavar="X", help="of --sample; below 1 is likelier")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="of --sample: among the likeliest tokens")
    parser.add_argument("--beams", type=int, default=1, metavar="N", help="of a beam search")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="of a text (default: 64)")
    parser.add_argument("--n", type=int, default=1, metavar="N", help="texts for each row")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of --sample")
    parser.add_argument("--output", metavar="FILE", help="ends in .jsonl, .csv, .tsv or .parquet (default: stdout)")
    add_places(parser)
    parser.set_defaults(run=_run, after_interrupt=_after_interrupt)


def _after_interrupt(options: argparse.Namespace) -> str:
    return "" if options.output is None else "; no output file was written"


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries
    from attribune.cli.output import show
    from attribune.data.writing import open_writer
    from attribune.generation.run import generate
    from attribune.generation.writing import Decoding

    quiet_libraries()
    settings = {field.name: getattr(options, field.name) for field in fields(Decoding)}
    texts = generate(
        options.run_folder,
        options.data,
        prompt=options.prompt,
        attributes=attribute_values(options.attribute),
        decoding=Decoding(**settings),
        backbone=options.backbone,
        encoding=options.encoding,
        reporter=ConsoleReporter(),
    )
    if options.output is None:
        for text in texts:
            show(json.dumps(text, ensure_ascii=False, default=str))
        return
    import pyarrow as pa

    with open_writer(options.output) as writer:
        rows = list(texts)
        writer.write(pa.Table.from_pylist(rows))
    ConsoleReporter().note(f"{len(rows):,} texts written to {options.output}")


def attribute_values(words: Sequence[str]) -> dict[str, Any]:
    """Values by attribute, from words such as ``user=u17``.

    Raises:
        ConfigError: for a word without the sign.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"--attribute {word}: write NAME=VALUE, such as user=u17")
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
