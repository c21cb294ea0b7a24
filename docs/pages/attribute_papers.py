"""The tables of attribute_papers.md: published figures, from the files in `published`, beside ours."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from attribune.metrics.tables import format_difference
from attribune_lab.benchmark.tables import Line, SetTable
from pages.cells import RESULTS, measured, table
from pages.counts import places
from pages.experiments import record, score

_PUBLISHED = Path(__file__).parent / "published"
_OURS: dict[str, Sequence[str]] = {
    "attrib-2": ("small", "main_small"),
    "attrib-3": ("ablations_small",),
    "attrib-4": ("cold_small",),
    "attrib-5": ("transfer_small",),
    "ma-bert-1": ("ma-bert_small", "small"),
    "e2ln-1": ("e2ln_small",),
    "e2ln-2": ("e2ln_small",),
    "e2ln-3": ("e2ln_small",),
    "e2ln-4": ("e2ln_small",),
    "e2ln-7": ("e2ln_small",),
}
"""For each published table, the records of experiments that have ours."""


def published(name: str) -> tuple[list[str], list[dict[str, str]]]:
    """The columns of figures and the lines of a published table."""
    with (_PUBLISHED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return list(lines[0])[2:], lines


def ours(name: str) -> list[tuple[str, SetTable]]:
    """The tables of our sets that belong to a published one, with their headings; none before they are measured.

    Sets on which attribute parameters are only learned for others are left out. A set of two experiments has the name
    of the experiment in its heading.
    """
    files = [file for file in _OURS[name] if (RESULTS / f"{file}.json").is_file()]
    found = [(file, one) for file in files for one in record(file).tables]
    sources = {one.plan.attributes_from for _, one in found}
    found = [(file, one) for file, one in found if one.plan.name not in sources]
    sets = Counter(one.plan.name for _, one in found)
    where = {file: f" ({file.removesuffix('_small')})" for file in files}
    return [
        (f"{one.plan.heading}{where[file] if sets[one.plan.name] > 1 else ''}, {one.metric}", one)
        for file, one in found
    ]


def beside(name: str) -> list[str]:
    """The published figures of each line, and ours with the difference to our reference."""
    columns, lines = published(name)
    tables = ours(name)
    head = ["", *columns, *(heading for heading, _ in tables)]
    rows = [
        [line["system"], *(line[column] for column in columns), *(_found(one, line["setting"]) for _, one in tables)]
        for line in lines
    ]
    return [*table(head, rows), *(() if tables else ("", "Ours are not measured."))]


def sizes() -> list[str]:
    """The published accuracies by sizes of the vectors of users and products, and ours below."""
    columns, lines = published("e2ln-6")
    shown = table(["user", *columns], [[line["system"], *(line[column] for column in columns)] for line in lines])
    if not (RESULTS / f"{_SIZES}.json").is_file():
        return [*shown, "", "Ours are not measured."]
    (found,) = record(_SIZES).tables
    names = {tuple(re.findall(r"\d+", line.name)): line.name for line in found.lines}
    users, products = (list(dict.fromkeys(key[place] for key in names)) for place in (0, 1))
    rows = [[user, *(_found(found, names[user, product]) for product in products)] for user in users]
    title = f"Ours, on the validation rows of {found.plan.heading}:"
    return [*shown, "", title, "", *table(["user", *products], rows)]


def changes() -> list[str]:
    """How far training moves the terms of the norms of each layer, in thousandths."""
    found = measured("changed_terms")["layers"]
    columns = [name for name in found[0] if name != "layer"]
    rows = [[str(line["layer"]), *(f"{1000 * line[name]:.1f}" for name in columns)] for line in found]
    return table(["layer", *columns], rows)


def _found(one: SetTable, names: str) -> str:
    """Our figure of the setting that has one of these names, divided by bars."""
    lines: dict[str, Line] = {line.name: line for line in one.lines}
    line = next((lines[name] for name in names.split("|") if name in lines), None)
    if line is None:
        return ""
    value = score(one, line)
    if line.against is None:
        return value
    difference = format_difference(one.metric, line.against)
    return f"{value} (**{difference}**)" if line.better or line.worse else f"{value} ({difference})"


_SIZES = "e2ln-sizes_small"
_TABLES: dict[str, Callable[[], list[str]]] = {name: partial(beside, name) for name in _OURS}
TABLES = {"attribute_papers.md": {**_TABLES, "e2ln-6": sizes, "e2ln-figure-3a": places, "e2ln-figure-4": changes}}
