"""The actions of ``attribune data`` about published data sets: list, info, prepare, stats, glue-files."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.apps.cli.arguments import add_shared, add_verb, paths_by_name
from attribune.apps.cli.output import show, show_json
from attribune.core.wording import counted

if TYPE_CHECKING:
    from attribune_lab.datasets.prepared import PreparedSet
    from attribune_lab.datasets.statistics import Figure


_ROOT = Path("data")


def add_actions(actions: Any) -> None:
    """Add the actions to those of the verb."""
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
    for action in (info, prepare, stats):
        action.add_argument("name", metavar="NAME", help="one of `attribune data list`")
    add = prepare.add_argument
    add("--source", metavar="DIR", required=True, help="folder with the files of the source")
    add("--output", metavar="DIR", help="folder to write (default: data/NAME)")
    add("--skip-bad", action="store_true", help="skip broken rows and count them")
    add("--partial", action="store_true", help="accept files with fewer rows than the source publishes")
    stats.add_argument("--prepared", metavar="DIR", help="folder that `prepare` wrote (default: data/NAME)")
    add_shared(stats, "--json")
    glue = add_verb(actions, "glue-files", "predict GLUE's test rows, in the files that its server scores", run=_glue)
    glue.add_argument(
        "tasks",
        metavar="TASK=RUN",
        nargs="+",
        help="a task and the run of it, such as rte=runs/rte; mnli is for both parts",
    )
    glue.add_argument("--source", metavar="DIR", required=True, help="folder with the files of GLUE")
    glue.add_argument("--output", metavar="DIR", required=True, help="folder to write")


def _list(_: argparse.Namespace) -> None:
    from attribune.metrics.tables import text_cells
    from attribune_lab.datasets.sets import CARDS

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
    from attribune_lab.datasets.sets import find_card

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
        f"{', after the prompt' if card.prompt else ''}"
        if card.pair
        else "",
        "labels": ", ".join(card.labels),
        "task": ", ".join(f"{key}: {value}" for key, value in card.task.items()),
        "classes": str(card.classes or ""),
        "metric": card.metric,
        "window": card.window,
        "recipe": card.recipe or "none of a paper",
        "split": card.split.text(pair=card.pair),
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


def _prepare(options: argparse.Namespace) -> None:
    from attribune.core.progress import ConsoleReporter
    from attribune_lab.datasets.preparation import prepare
    from attribune_lab.datasets.sets import find_card

    card = find_card(options.name)
    output = Path(options.output) if options.output else _ROOT / card.name
    reporter = ConsoleReporter()
    reporter.note(f"{card.name}: terms: {card.terms}")
    prepared = prepare(card, source=options.source, output=output, skip_bad=options.skip_bad, partial=options.partial)
    reporter.notes(_prepared_lines(prepared))
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
    from attribune.errors import ConfigError
    from attribune_lab.datasets.prepared import load_prepared
    from attribune_lab.datasets.sets import find_card
    from attribune_lab.datasets.statistics import best_subset, describe_set, divergences

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


def _glue(options: argparse.Namespace) -> None:
    from attribune.core.progress import ConsoleReporter
    from attribune_lab.datasets.glue_files import SERVER_FILES, write_server_files

    runs = paths_by_name(options.tasks, form="TASK=RUN, such as rte=runs/rte")
    written = write_server_files(runs, source=options.source, output=options.output)
    reporter = ConsoleReporter()
    for file in SERVER_FILES:
        if file.name in written:
            reporter.note(file.note(written[file.name]))
    if missing := [file.name for file in SERVER_FILES if file.name not in written]:
        reporter.note(f"the server also asks for {', '.join(missing)}")
    show(options.output)
