"""``attribune data``: the data sets of the benchmark, how to get them, their preparation and their statistics."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.cli.output import show

if TYPE_CHECKING:
    from attribune.benchmark.cards import Card
    from attribune.benchmark.preparation import PreparedSet
    from attribune.benchmark.statistics import Figure

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune data list
  attribune data info polmed
  attribune data prepare polmed --source downloads --output data/polmed
  attribune data stats polmed
  attribune train --config data/polmed/recipe.yaml --method injector --output runs/polmed"""
_ROOT = Path("data")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "data",
        help="the data sets of the benchmark: list, info, prepare, stats",
        description="Data sets with attributes: where each is to be had, how it is prepared, what is in it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="all data sets")
    listed.set_defaults(run=_list, after_interrupt=lambda _: "")
    info = actions.add_parser("info", help="one data set: source, terms, files, preparation, citation")
    info.add_argument("name", metavar="NAME")
    info.set_defaults(run=_info, after_interrupt=lambda _: "")
    prepare = actions.add_parser("prepare", help="make Parquet files with a manifest from the files of the source")
    prepare.add_argument("name", metavar="NAME")
    prepare.add_argument("--source", metavar="DIR", required=True, help="folder with the files of the source")
    prepare.add_argument("--output", metavar="DIR", help="folder to write; data/NAME unless given")
    prepare.add_argument("--skip-bad", action="store_true", help="leave broken rows out and count them")
    prepare.add_argument("--partial", action="store_true", help="take files with fewer rows than the source publishes")
    prepare.set_defaults(run=_prepare, after_interrupt=lambda _: "; the same command begins anew")
    stats = actions.add_parser("stats", help="sizes, words, values, and what the attributes say of the classes")
    stats.add_argument("name", metavar="NAME")
    stats.add_argument("--prepared", metavar="DIR", help="folder that `prepare` wrote; data/NAME unless given")
    stats.add_argument("--json", action="store_true", help="write JSON to stdout")
    stats.set_defaults(run=_stats, after_interrupt=lambda _: "")


def _list(_: argparse.Namespace) -> None:
    from attribune.benchmark.sets import CARDS
    from attribune.evaluation.report import text_cells

    rows = [
        [
            card.name,
            card.title,
            ", ".join(card.names()),
            f"{card.classes}" if len(card.labels) == 1 else f"{len(card.labels)} x {card.classes}",
            f"{card.published['train']:,.0f}" if "train" in card.published else "",
            "prepared" if (_ROOT / card.name / "manifest.json").is_file() else "",
        ]
        for card in CARDS.values()
    ]
    show(text_cells([["name", "title", "attributes", "classes", "training rows", ""], *rows], left=3))


def _info(options: argparse.Namespace) -> None:
    from attribune.benchmark.sets import find_card

    card = find_card(options.name)
    blocks = {
        "source": card.source,
        "how to get it": card.obtain,
        "terms": card.terms,
        "citation": card.citation,
        "files": "; ".join(_file_text(file) for file in card.files),
        "preparation": card.preparation,
        "attributes": ", ".join(f"{attribute['name']} ({attribute['kind']})" for attribute in card.attributes),
        "labels": ", ".join(card.labels),
        "task": ", ".join(f"{key}: {value}" for key, value in card.task.items()),
        "classes": str(card.classes),
        "metric": card.metric,
        "window": card.window,
        "recipe": card.recipe or "none of a paper",
        "split": _split_text(card),
        "notes": card.notes,
    }
    lines = [f"{card.name}: {card.title}"]
    for name, text in blocks.items():
        if text:
            lines += textwrap.wrap(
                text,
                110,
                initial_indent=f"  {name}: ",
                subsequent_indent="    ",
                break_on_hyphens=False,  # an address in two lines cannot be copied
                break_long_words=False,
            )
    show("\n".join(lines))


def _file_text(file: Any) -> str:
    rows = "" if file.rows is None else f", {file.rows:,} rows"
    return f"{file.names[0]}{rows}"


def _split_text(card: Card) -> str:
    from attribune.benchmark.cards import Folds, Shuffled

    if isinstance(card.split, Folds):
        return f"{card.split.number} folds, seed {card.split.seed}"
    if isinstance(card.split, Shuffled):
        size = f"{card.split.rows:,} rows" if card.split.share is None else f"{100 * card.split.share:g} % of the rows"
        whole = "; equal texts stay together" if card.split.whole_texts else ""
        return f"at random, seed {card.split.seed}: {size} each for validation and test{whole}"
    return "as published"


def _prepare(options: argparse.Namespace) -> None:
    from attribune.benchmark.preparation import prepare
    from attribune.benchmark.sets import find_card
    from attribune.cli.console import ConsoleReporter

    card = find_card(options.name)
    output = Path(options.output) if options.output else _ROOT / card.name
    reporter = ConsoleReporter()
    reporter.note(f"{card.name}: terms: {card.terms}")
    prepared = prepare(card, source=options.source, output=output, skip_bad=options.skip_bad, partial=options.partial)
    for line in _prepared_lines(prepared):
        reporter.note(line)
    show(str(output))


def _prepared_lines(prepared: PreparedSet) -> list[str]:
    manifest = prepared.manifest
    parts = ", ".join(f"{name} {part['rows']:,}" for name, part in manifest["parts"].items())
    lines = [f"{'already prepared' if prepared.reused else 'prepared'}, rows: {parts}"]
    lines += [f"left out, {reason}: {count:,}" for reason, count in manifest["left_out"].items()]
    lines += [
        f"broken and skipped, {reason}: {found['rows']:,}, first in {found['first']}"
        for reason, found in manifest["bad"].items()
    ]
    return lines + [f"{kind}: {count:,}" for kind, count in manifest["remarks"].items()]


def _stats(options: argparse.Namespace) -> None:
    from attribune.benchmark.preparation import load_prepared
    from attribune.benchmark.sets import find_card
    from attribune.benchmark.statistics import best_subset, describe_set, divergences
    from attribune.errors import ConfigError

    card = find_card(options.name)
    prepared = load_prepared(options.prepared or _ROOT / card.name)
    if prepared.manifest["name"] != card.name:
        raise ConfigError(f"{prepared.folder} holds {prepared.manifest['name']}, not {card.name}: name its folder")
    figures = describe_set(prepared, published=dict(card.published))
    apart = divergences(prepared, published=dict(card.divergence))
    subset, least = best_subset(prepared, published=card.divergence.get("best subset"))
    if options.json:
        result = {
            "name": card.name,
            "figures": [asdict(figure) for figure in figures],
            "divergences": [asdict(figure) for figure in apart],
            "best_subset": {"attributes": list(subset), **asdict(least)},
        }
        show(json.dumps(result, indent=1))
        return
    folds = f", mean over {prepared.folds} folds" if prepared.folds else ""
    show(f"{card.title}{folds}\n\n{_table(figures)}\n")
    show("divergence of the classes of held-out rows from what the attributes say (lower: they say more)\n")
    show(_table([*apart, least], places=3))


def _table(figures: list[Figure], places: int | None = None) -> str:
    from attribune.evaluation.report import text_cells

    spread = any(figure.spread is not None for figure in figures)
    lines = [["", "here", *(["sd over folds"] if spread else []), "paper", ""]]
    for figure in figures:
        known = figure.agrees()
        verdict = "" if known is None else "agrees" if known else "differs"
        cells = [_number(figure.value, places), *([_number(figure.spread, places)] if spread else [])]
        lines.append([figure.name, *cells, _number(figure.published, places), verdict])
    return text_cells(lines)


def _number(value: float | None, places: int | None) -> str:
    if value is None:
        return ""
    if places is not None:
        return f"{value:.{places}f}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
