"""The tables of recipes.md: every setting, and what can be done with which task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import get_args

from pydantic import BaseModel

from attribune.flags import FLAGS
from attribune.runs.recipe import Recipe
from pages.capabilities import TASKS, capabilities
from pages.cells import table

__all__ = ["TABLES", "TASKS"]
PARTS = ("data", "backbone", "training", "evaluation", "transfer")
SEE = {
    "data.train": "[data](data.md)",
    "data.text_pair": "[pairs](data.md#pairs-of-texts)",
    "data.weight": "[weights](data.md#weights-of-rows)",
    "data.values": "[described values](new_values.md#described-values): `table`, `key`, `fields`, `own_vectors`",
    "data.split.date_format": "[splits](data.md#splits)",
    "data.bad_labels": "[labels](data.md#labels)",
    "backbone.tuning": "[what learns](backbones.md#what-learns)",
    "backbone.options": "[without pretraining](backbones.md#without-pretraining)",
    "evaluation.cluster": "[results](concepts.md#results)",
    "training.report_to": "[trackers](command_line.md#trackers)",
}
"""Where pages say more."""


def settings_of(model: type[BaseModel], start: str) -> Iterator[tuple[str, str, str]]:
    """The path, the default and the meaning of each setting."""
    for name, field in model.model_fields.items():
        path = f"{start}{name}"
        if isinstance(field.default, BaseModel):
            yield from settings_of(type(field.default), f"{path}.")
            continue
        default = "" if field.is_required() else f"`{json.dumps(field.default, ensure_ascii=False)}`"
        meaning = field.description or ""
        if path in FLAGS and FLAGS[path].otherwise and field.default is None:
            meaning += f"; by default {FLAGS[path].otherwise}"
        yield path, default, meaning + (f"; see {SEE[path]}" if path in SEE else "")


def part_of(name: str) -> type[BaseModel]:
    """The settings of a part of a recipe."""
    annotation = Recipe.model_fields[name].annotation
    choices = [choice for choice in (annotation, *get_args(annotation)) if isinstance(choice, type)]
    return next(choice for choice in choices if issubclass(choice, BaseModel))


def rows_of(part: str) -> list[str]:
    """The table of a part; beside a setting stands its flag."""
    rows = []
    for path, default, meaning in settings_of(part_of(part), f"{part}."):
        flag = f", `{FLAGS[path].words}`" if path in FLAGS and FLAGS[path].group else ""
        rows.append([f"`{path}`{flag}", default, meaning])
    return table(["setting", "default", "meaning"], rows, words=(0, 1, 2))


def _table_of(part: str) -> Callable[[], list[str]]:
    return lambda: rows_of(part)


_TABLES: Mapping[str, Callable[[], list[str]]] = {f"settings of {part}": _table_of(part) for part in PARTS}
TABLES = {"recipes.md": {**_TABLES, "capabilities": capabilities}}
