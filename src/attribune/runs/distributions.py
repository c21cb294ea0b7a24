"""Tables of judgements as tables of texts with the shares of their answers, ready to be trained on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import yaml

from attribune.core.files import make_folder, replace_file
from attribune.data.clusters import AnswerShares, answer_shares
from attribune.data.tables import read_table, refuse_input_as_output, table_source_name
from attribune.data.writing import open_writer
from attribune.errors import ConfigError, numbered_in_file
from attribune.runs.recipe import DataRecipe, Recipe

_KINDS = ("classification", "rating", "ordinal")
_WITHOUT_ATTRIBUTES = "adapter"


def write_distributions(data: DataRecipe, output: str | Path) -> list[str]:
    """Write a row for each text of ``data.train``, with the shares of its answers, and say what was made of the rows.

    Args:
        output: a file with one of the endings of `open_writer`.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    label = _label(data)
    refuse_input_as_output(output, [data.train])
    table, shares = _read(data, data.train, label, data.missing)
    _write(shares.table(table, text=data.texts, label=label), output)
    return shares.lines()


def write_distribution_recipe(settings: Mapping[str, Any], folder: str | Path) -> list[str]:
    """Write the tables of a recipe as `write_distributions` does, and a recipe that trains on them.

    A column that is dropped from one of the tables is dropped from all, and from the attributes. If none is left, the
    recipe gets a method that needs none.

    Args:
        settings: the tree of a recipe.
        folder: to write ``train.parquet``, ``validation.parquet``, ``test.parquet``, as many as there are, and
            ``recipe.yaml`` into.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    recipe = Recipe.from_dict(dict(settings))
    data, task = recipe.data, dict(settings.get("task") or {})
    label = _label(data)
    if task.get("kind") not in (None, *_KINDS):
        raise ConfigError(
            f"task {task['kind']!r} learns no distribution of answers: name a recipe of {', '.join(_KINDS)}"
        )
    if data.weight is not None:
        raise ConfigError(f"the recipe has weights of judgements ({data.weight}): leave data.weight out")
    sources = {name: getattr(data, name) for name in ("train", "validation", "test")}
    read = {
        name: _read(data, source, label, recipe.missing_labels)
        for name, source in sources.items()
        if source is not None
    }
    kept = set.intersection(*(set(shares.shared) for _, shares in read.values()))
    files, notes = {name: Path(folder) / f"{name}.parquet" for name in read}, []
    make_folder(folder)
    for name, (table, shares) in read.items():
        refuse_input_as_output(files[name], sources.values())
        lost = tuple(column for column in shares.shared if column not in kept)
        shares = replace(
            shares,
            shared=tuple(column for column in shares.shared if column in kept),
            dropped=(*shares.dropped, *lost),
        )
        _write(shares.table(table, text=data.texts, label=label), files[name])
        notes += [f"{name}: {line}" for line in shares.lines()]
    lost_names = {column for _, shares in read.values() for column in shares.dropped}
    attributes = [attribute for attribute in data.attributes if attribute["name"] in kept]
    tree = {
        **settings,
        "data": {
            **(settings.get("data") or {}),
            **{name: str(file) for name, file in files.items()},
            "attributes": attributes,
            "values": {name: values.model_dump() for name, values in data.values.items() if name in kept},
        },
        "task": {**task, "soft_labels": True},
    }
    if recipe.learner.needs_attributes and not attributes:
        tree["method"] = {"name": _WITHOUT_ATTRIBUTES}
        notes.append(
            f"no attribute is left: the recipe is of the method {_WITHOUT_ATTRIBUTES}, not {recipe.learner.name}"
        )
    Recipe.from_dict(tree, source=f"the recipe without the columns that were dropped ({', '.join(sorted(lost_names))})")
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, explicit_end=True)
    replace_file(Path(folder) / "recipe.yaml", text.encode())
    return notes


def _label(data: DataRecipe) -> str:
    if len(data.label) != 1:
        raise ConfigError(f"distributions are of the answers in one column, {len(data.label)} are named: name one")
    return data.label[0]


def _read(data: DataRecipe, source: str, label: str, missing: Collection[str]) -> tuple[datasets.Dataset, AnswerShares]:
    table = read_table(source, **data.reading)
    name = table_source_name(source)
    with numbered_in_file(range(len(table)), name):
        return table, answer_shares(table, text=data.texts, label=label, missing=missing, source=name)


def _write(table: pa.Table, path: str | Path) -> None:
    with open_writer(path) as writer:
        writer.write(table)
