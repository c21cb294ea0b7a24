"""The tables of recipes.md: the settings of each part, with their flags, as their fields declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import get_args

from attribune.apps.cli import build_parser
from attribune.core.config import Settings
from attribune.core.flags import argument_of
from attribune.runs.recipe import Recipe
from pages.cells import table

SEE = {
    "data.train": "data.md",
    "data.text_pair": "data.md#pairs-of-texts",
    "data.weight": "data.md#weights-of-rows",
    "data.values": "new_values.md#described-values",
    "data.split.date_format": "data.md#splits",
    "data.bad_labels": "data.md#labels",
    "backbone.tuning": "backbones.md#what-learns",
    "backbone.options": "backbones.md#without-pretraining",
    "training.report_to": "command_line.md#trackers",
    "evaluation.cluster": "concepts.md#results",
}
"""Where there is more on a setting."""


def settings(part: str) -> list[str]:
    """The settings of a part of the recipe, with default, flag and meaning."""
    train = build_parser().parser_of_words(["train"])
    rows = []
    for path, default, meaning in _fields(part):
        flag = train.flag_of(argument_of(path))
        link = f" ([more]({SEE[path]}))" if path in SEE else ""
        rows.append([f"`{path}`", default, f"`{flag}`" if flag else "", meaning + link])
    return table(["setting", "default", "flag", "meaning"], rows, words=range(4))


def _fields(part: str) -> Iterator[tuple[str, str, str]]:
    """Path, default and meaning of each setting."""
    field = Recipe.model_fields[part]
    kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
    yield from _of(next(kind for kind in kinds if issubclass(kind, Settings)), part)


def _of(group: type[Settings], start: str) -> Iterator[tuple[str, str, str]]:
    for name, field in group.model_fields.items():
        path = f"{start}.{name}"
        if isinstance(field.default, Settings):
            yield from _of(type(field.default), path)
        else:
            yield (
                path,
                "" if field.is_required() else f"`{json.dumps(field.default, ensure_ascii=False)}`",
                field.description or "",
            )


TABLES = {
    "recipes.md": {part: partial(settings, part) for part in ("data", "backbone", "training", "evaluation", "transfer")}
}
