"""Write texts by attributes.

Write texts with a run of `--task generation`, as one JSON object per line: for the attributes on the command line, or
for every row of a table with the columns of prompt and attributes. By default each next token is the most likely one;
--sample and --beams change that.

Examples:
  attribune generate runs/quotes --attribute verdict=fresh --attribute critic=c3
  attribune generate runs/quotes --attribute verdict=rotten --sample --top-p 0.9 --n 5 --seed 1
  attribune generate runs/quotes new.csv --beams 4 --output quotes.jsonl
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, attribute_values, table_of
from attribune.apps.cli.output import open_console, show
from attribune.core.wording import counted

__all__ = ["add_parser"]


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "generate", __doc__, run=_run, after_interrupt=_after_interrupt)
    add = parser.add_argument
    add_shared(parser, "run_folder", help="run folder that `attribune train --task generation` wrote")
    add_shared(parser, "data", nargs="?")
    add("--prompt", metavar="TEXT", help="prompt of the text; for a run without a prompt, its beginning")
    add_shared(parser, "--attribute")
    add("--sample", action="store_true", help="draw tokens at random (default: the most likely)")
    add(
        "--temperature",
        type=float,
        default=1.0,
        metavar="X",
        help="with --sample: temperature; below 1 prefers likely tokens (default: 1)",
    )
    add(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="with --sample: probability mass of nucleus sampling (default: 1)",
    )
    add("--beams", type=int, default=1, metavar="N", help="beams of a beam search (default: 1, no search)")
    add("--max-new-tokens", type=int, default=64, metavar="N", help="maximum number of tokens per text (default: 64)")
    add("--n", type=int, default=1, metavar="N", help="texts per row (default: 1)")
    add("--seed", type=int, default=0, metavar="N", help="seed of --sample (default: 0)")
    add("--output", metavar="FILE", help="file ending in .jsonl, .csv, .tsv or .parquet (default: stdout)")
    add_shared(parser, "--backbone", "--quantise")
    add_reading(parser)


def _after_interrupt(options: argparse.Namespace) -> str:
    return "" if options.output is None else "; no output file was written"


def _run(options: argparse.Namespace) -> None:
    from attribune.core.files import clear_drafts
    from attribune.data.writing import open_writer
    from attribune.models.writer import Decoding
    from attribune.prediction.generate import generate

    console = open_console()
    settings = {field.name: getattr(options, field.name) for field in fields(Decoding)}
    texts = generate(
        options.run_folder,
        table_of(options),
        prompt=options.prompt,
        attributes=attribute_values(options.attribute),
        decoding=Decoding(**settings),
        backbone=options.backbone,
        quantise=options.quantise,
        reporter=console,
    )
    if options.output is None:
        for text in texts:
            show(json.dumps(text, ensure_ascii=False, default=str))
        return
    import pyarrow as pa

    clear_drafts(Path(options.output).parent, name=Path(options.output).name)
    with open_writer(options.output) as writer:
        rows = list(texts)
        writer.write(pa.Table.from_pylist(rows))
    console.note(f"{counted(len(rows), 'text')} written to {options.output}")
