"""Prepare and describe the data sets of the benchmark; convert tables of judgements.

Data sets with attributes: where to get each, how it is prepared, and what it contains. `judgements` turns the export of
an annotation tool into one row per judgement, and `distributions` such a table into one row per text.

Examples:
  attribune data list
  attribune data info polmed
  attribune data prepare polmed --source downloads --output data/polmed
  attribune data stats polmed
  attribune data judgements export.json --output judgements.csv
  attribune data distributions judgements.csv --text text --label answer --output texts.csv
  attribune train --config data/polmed/recipe.yaml --method injector --output runs/polmed
"""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.apps.cli.arguments import SEVERAL, add_reading, add_shared, add_verb, reading_of
from attribune.apps.cli.output import show, show_json
from attribune.core.wording import counted

if TYPE_CHECKING:
    from attribune.datasets.card import Card
    from attribune.datasets.prepared import PreparedSet
    from attribune.datasets.statistics import Figure

__all__ = ["add_parser"]

_ROOT = Path("data")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    actions = add_verb(verbs, "data", __doc__).add_verbs(dest="action", metavar="ACTION")
    add_verb(actions, "list", "list all data sets", run=_list)
    info = add_verb(actions, "info", "show one data set: source, licence, files, preparation, citation", run=_info)
    prepare = add_verb(
        actions,
        "prepare",
        "turn the files of the source into Parquet files with a manifest",
        run=_prepare,
        after_interrupt="; run the same command to start again",
    )
    figures = "show sizes, words, values, and how much the attributes tell about the classes"
    stats = add_verb(actions, "stats", figures, run=_stats)
    _add_judgements(actions)
    _add_distributions(actions)
    for action in (info, prepare, stats):
        action.add_argument("name", metavar="NAME", help="one of `attribune data list`")
    add = prepare.add_argument
    add("--source", metavar="DIR", required=True, help="folder with the files of the source")
    add("--output", metavar="DIR", help="folder to write (default: data/NAME)")
    add("--skip-bad", action="store_true", help="skip broken rows and count them")
    add("--partial", action="store_true", help="accept files with fewer rows than the source publishes")
    stats.add_argument("--prepared", metavar="DIR", help="folder that `prepare` wrote (default: data/NAME)")
    add_shared(stats, "--json")


_JUDGEMENTS = """Turn the export of an annotation tool into a table with a row for each judgement.

Read exports of Label Studio, Argilla and doccano, records with a list of answers and one of judges (such as those of
Learning with Disagreements), or a table with a column for each judge. Write the columns of the text, the judge and the
answer, and say what was left out. Answers that mark parts of a text become words and tags. Of several files, each
belongs to one judge, whose name it has, unless a column tells.

Examples:
  attribune data judgements project.json --output judgements.csv
  attribune data judgements project.json --label sentiment --output judgements.csv
  attribune data judgements wide.csv --judges anna bob cem --output judgements.csv
  attribune data judgements anna.jsonl bob.jsonl --output judgements.csv
"""


def _add_judgements(actions: Any) -> None:
    parser = add_verb(actions, "judgements", _JUDGEMENTS, run=_write_judgements)
    add_shared(parser, "data", nargs="+")
    add = parser.add_argument
    add("--text", **SEVERAL, metavar="COL", help="text column, or several, if the guess is wrong")
    add("--label", metavar="NAME", help="question, or column of the answers, where there are several")
    add("--judge", metavar="COL", help="column of the judges, if it is not found")
    add("--judges", **SEVERAL, default=[], metavar="COL", help="columns that each hold the answers of one judge")
    add("--judge-column", default="judge", metavar="NAME", help="name of the new column of judges (default: judge)")
    add("--label-column", default="label", metavar="NAME", help="name of the new column of answers (default: label)")
    add("--output", required=True, metavar="FILE", help="CSV, TSV, JSONL or Parquet file")
    add_reading(parser)


def _write_judgements(options: argparse.Namespace) -> None:
    from attribune.apps.cli.output import open_console
    from attribune.data.annotation_exports import write_judgements

    console = open_console()
    found = write_judgements(
        options.data,
        options.output,
        text=options.text,
        label=options.label,
        judge=options.judge,
        judges=options.judges,
        judge_column=options.judge_column,
        label_column=options.label_column,
        **reading_of(options).given(),
    )
    for line in found.lines():
        console.note(line)
    console.note(f"go on with: {found.next_command(options.output)}")
    show(options.output)


_DISTRIBUTIONS = """Turn a table of judgements into a table of texts, with the share of each answer.

Read a table with a row for each judgement and write a row for each text. Its label is the share of each answer, such
as {"no": 0.75, "yes": 0.25}, which task.soft_labels learns; the column judgements has the number of judgements. Other
columns are kept if all rows of a text have the same value. With --config, the output is a folder with the tables of the
recipe and a recipe that trains on them.

Examples:
  attribune data distributions judgements.csv --text text --label answer --output texts.csv
  attribune train texts.csv --text text --label answer --method adapter --set task.soft_labels=true --output runs/texts
  attribune data distributions --config data/hs-brexit/recipe.yaml --output data/hs-brexit-texts
"""


def _add_distributions(actions: Any) -> None:
    parser = add_verb(actions, "distributions", _DISTRIBUTIONS, run=_write_distributions)
    add_shared(parser, "data", nargs="?")
    add = parser.add_argument
    add("--text", **SEVERAL, metavar="COL", help="text column, or several that are joined")
    add("--text-pair", **SEVERAL, metavar="COL", help="column of a second text")
    add("--label", metavar="COL", help="column of the answers")
    add("--config", metavar="FILE", help="recipe in YAML, instead of a table and its columns")
    add("--output", required=True, metavar="FILE_OR_DIR", help="CSV, TSV, JSONL or Parquet file; a folder for a recipe")
    add_reading(parser)


def _write_distributions(options: argparse.Namespace) -> None:
    from attribune.apps.cli.output import open_console
    from attribune.core.config import read_yaml
    from attribune.errors import ConfigError
    from attribune.runs.distributions import write_distribution_recipe, write_distributions
    from attribune.runs.recipe import DataRecipe

    names = ("data", "text", "text_pair", "label")
    given = {name: getattr(options, name) for name in names if getattr(options, name)}
    given |= reading_of(options).given()
    if options.config is None:
        given = {"train" if name == "data" else name: value for name, value in given.items()}
        notes = write_distributions(DataRecipe.from_dict(given, source="the table of judgements"), options.output)
    elif given:
        raise ConfigError(f"--config names table and columns: leave {', '.join(given)} out")
    else:
        notes = write_distribution_recipe(read_yaml(options.config), options.output)
    console = open_console()
    for note in notes:
        console.note(note)
    show(options.output)


def _list(_: argparse.Namespace) -> None:
    from attribune.datasets.sets import CARDS
    from attribune.metrics.tables import text_cells

    rows = [
        [
            card.name,
            card.title,
            ", ".join(card.names()),
            card.classes_text,
            f"{card.published['train']:,.0f}" if "train" in card.published else "",
            "prepared" if (_ROOT / card.name / "manifest.json").is_file() else "",
        ]
        for card in CARDS.values()
    ]
    show(text_cells([["name", "title", "attributes", "classes", "training rows", ""], *rows], left=3))


def _info(options: argparse.Namespace) -> None:
    from attribune.datasets.sets import find_card

    card = find_card(options.name)
    blocks = {
        "source": card.source,
        "how to get it": card.obtain,
        "revision": card.revision,
        "licence": card.licence,
        "terms": card.terms,
        "citation": card.citation,
        "files": "; ".join(_file_text(file) for file in card.files),
        "preparation": card.preparation,
        "attributes": ", ".join(f"{attribute['name']} ({attribute['kind']})" for attribute in card.attributes),
        "texts": f"text and text_pair, {'compared' if card.task['kind'] == 'preference' else 'read together'}"
        if card.pair
        else "",
        "labels": ", ".join(card.labels),
        "task": ", ".join(f"{key}: {value}" for key, value in card.task.items()),
        "classes": str(card.classes or ""),
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
    rows = "" if file.rows is None else f", {counted(file.rows, 'row')}"
    return f"{file.names[0]}{rows}{', where there is one' if file.optional else ''}"


def _split_text(card: Card) -> str:
    from attribune.datasets.card import Folds, Hashed, Shuffled

    if isinstance(card.split, Folds):
        return f"{card.split.number} folds, seed {card.split.seed}"
    if isinstance(card.split, Shuffled):
        size = f"{card.split.rows:,} rows" if card.split.share is None else f"{100 * card.split.share:g} % of the rows"
        grouped = "; equal texts stay together" if card.split.whole_texts else ""
        return f"at random, seed {card.split.seed}: {size} each for validation and test{grouped}"
    if isinstance(card.split, Hashed):
        of = f"the {card.split.group}" if card.split.group else "the texts" if card.pair else "the text"
        share = f"{100 * card.split.validation:g} % of the rows"
        size = (
            f"{share} each for validation and test" if card.split.test else f"{share} for validation; test as published"
        )
        return f"by a hash of {of}: {size}"
    return "as published"


def _prepare(options: argparse.Namespace) -> None:
    from attribune.core.console import ConsoleReporter
    from attribune.datasets.preparation import prepare
    from attribune.datasets.sets import find_card

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
        f"broken and skipped, {reason}: {bad['rows']:,}, first in {bad['first']}"
        for reason, bad in manifest["bad"].items()
    ]
    lines += [f"{kind}: {count:,}" for kind, count in manifest["remarks"].items()]
    return lines + list(manifest.get("differences", []))


def _stats(options: argparse.Namespace) -> None:
    from attribune.datasets.prepared import load_prepared
    from attribune.datasets.sets import find_card
    from attribune.datasets.statistics import best_subset, describe_set, divergences
    from attribune.errors import ConfigError

    card = find_card(options.name)
    prepared = load_prepared(options.prepared or _ROOT / card.name)
    if prepared.manifest["name"] != card.name:
        raise ConfigError(f"{prepared.folder} holds {prepared.manifest['name']}, not {card.name}: name its folder")
    figures = describe_set(prepared, published=dict(card.published))
    by_attribute = divergences(prepared, published=dict(card.divergence))
    subset, lowest = best_subset(prepared, published=card.divergence.get("best subset")) or ((), None)
    if options.json:
        result = {
            "name": card.name,
            "figures": [asdict(figure) for figure in figures],
            "divergences": [asdict(figure) for figure in by_attribute],
            "best_subset": {"attributes": list(subset), **(asdict(lowest) if lowest else {})},
        }
        show_json(result)
        return
    folds = f", mean over {prepared.folds} folds" if prepared.folds else ""
    show(f"{card.title}{folds}\n\n{_table(figures)}\n")
    if by_attribute:
        show("divergence of the classes of held-out rows from what the attributes predict (lower: they predict more)\n")
        show(_table([*by_attribute, *([lowest] if lowest else [])], places=3))


def _table(figures: list[Figure], places: int | None = None) -> str:
    from attribune.metrics.tables import text_cells

    spread = any(figure.spread is not None for figure in figures)
    lines = [["", "here", *(["sd over folds"] if spread else []), "paper", ""]]
    for figure in figures:
        verdict = {None: "", True: "agrees", False: "differs"}[figure.agrees()]
        cells = [_number(figure.value, places), *([_number(figure.spread, places)] if spread else [])]
        lines.append([figure.name, *cells, _number(figure.published, places), verdict])
    return text_cells(lines)


def _number(value: float | None, places: int | None) -> str:
    if value is None:
        return ""
    if places is not None:
        return f"{value:.{places}f}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
