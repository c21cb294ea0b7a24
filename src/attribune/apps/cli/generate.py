"""Write texts by attributes.

Write texts with a run of `--task generation`, as one JSON object per line: for the attributes on the command line, or
for every row of a table with the columns of prompt and attributes. By default each next token is the most likely one;
--sample and --beams change that. With --score, show how like the texts of the table they are.

Examples:
  attribune generate runs/quotes --attribute verdict=fresh --attribute critic=c3
  attribune generate runs/quotes --attribute verdict=rotten --sample --top-p 0.9 --n 5 --seed 1
  attribune generate runs/quotes new.csv --beams 4 --output quotes.jsonl
  attribune generate runs/quotes test.csv --score
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.apps.cli.arguments import add_reading, add_shared, add_verb, attribute_values, table_of
from attribune.apps.cli.output import open_console, show, show_json
from attribune.core.wording import counted
from attribune.errors import ConfigError

if TYPE_CHECKING:
    from attribune.core.progress import ConsoleReporter


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
    add(
        "--score",
        action="store_true",
        help="score the texts against those of DATA, written with attributes and with all of them hidden",
    )
    add("--output", metavar="FILE", help="file ending in .jsonl, .csv, .tsv or .parquet (default: stdout)")
    add_shared(parser, "--json", help="with --score: write the scores as JSON to stdout")
    add_shared(parser, "--backbone", "--quantise")
    add_reading(parser)


def _after_interrupt(options: argparse.Namespace) -> str:
    return "" if options.output is None else "; no output file was written"


def _run(options: argparse.Namespace) -> None:
    _check(options)
    from attribune.models.writer import Decoding

    console = open_console()
    settings = {field.name: getattr(options, field.name) for field in fields(Decoding)}
    shared = {"decoding": Decoding(**settings), "backbone": options.backbone, "quantise": options.quantise}
    if options.score:
        _score(options, shared, console)
        return
    from attribune.prediction.generate import generate

    texts = generate(
        options.run_folder,
        table_of(options),
        prompt=options.prompt,
        attributes=attribute_values(options.attribute),
        reporter=console,
        **shared,
    )
    if options.output is not None:
        _save(texts, options.output, console)
        return
    for text in texts:
        show(json.dumps(text, ensure_ascii=False, default=str))


def _check(options: argparse.Namespace) -> None:
    """Refuse flags that do not go together."""
    if options.json and not options.score:
        raise ConfigError("--json is for the scores of --score; without it texts are written as JSON: leave --json out")
    if options.score and (options.prompt is not None or options.attribute):
        raise ConfigError(
            "--score writes for the prompts and attributes of DATA, whose texts it compares with: leave --prompt and "
            "--attribute out"
        )


def _score(options: argparse.Namespace, shared: dict[str, Any], console: ConsoleReporter) -> None:
    from attribune.analysis.evaluate_texts import evaluate_texts

    found = evaluate_texts(options.run_folder, table_of(options), **shared)
    console.notes(found.notes)
    if options.output is not None:
        _save(found.records(), options.output, console)
    if options.json:
        metrics = {name: {key: asdict(value) for key, value in row.items()} for name, row in found.metrics.items()}
        show_json({"rows": found.rows, "metrics": metrics, "comparisons": [asdict(pair) for pair in found.comparisons]})
    else:
        show(found.text())


def _save(texts: Iterable[dict[str, Any]], output: str, console: ConsoleReporter) -> None:
    import pyarrow as pa

    from attribune.core.files import clear_drafts
    from attribune.data.writing import open_writer

    clear_drafts(Path(output).parent, name=Path(output).name)
    with open_writer(output) as writer:
        rows = list(texts)
        writer.write(pa.Table.from_pylist(rows))
    console.note(f"{counted(len(rows), 'text')} written to {output}")
