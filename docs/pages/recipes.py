"""The tables of recipes.md: the settings of each part, with their flags, as their fields declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from inspect import Parameter, signature
from typing import Any, get_args

from attribune.apps.cli import build_parser
from attribune.apps.cli.methods import meanings_of
from attribune.core.config import Settings
from attribune.core.flags import argument_of
from attribune.runs.recipe import Recipe
from attribune.schema.kinds import KINDS
from attribune.tasks import TASKS
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
                "" if field.is_required() else f"`{_json(field.default)}`",
                field.description or "",
            )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def attribute_options() -> list[str]:
    """The options of the kinds of attributes."""
    defaults = {
        kind: {field.name: field.default for field in fields(spec) if field.name != "name"}
        for kind, spec in KINDS.items()
    }
    return _options("kinds", KINDS, defaults)


def task_options() -> list[str]:
    """The options with which the tasks are fitted."""
    defaults = {
        kind: {name: one.default for name, one in list(signature(task.fit).parameters.items())[1:]}
        for kind, task in TASKS.items()
    }
    return _options("tasks", TASKS, defaults)


def _options(what: str, classes: Mapping[str, type], defaults: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Options with their defaults and meanings, and the classes that have them so."""
    owners: dict[tuple[str, str, str], list[str]] = {}
    meanings: dict[str, str] = {}
    for kind, options in defaults.items():
        meanings |= meanings_of(classes[kind])  # a kind that does not say it has it from one before
        for name, default in options.items():
            shown = "" if default is Parameter.empty else f"`{_json(default)}`"
            owners.setdefault((name, shown, meanings[name].rstrip(".")), []).append(kind)
    rows = [
        [f"`{name}`", shown, "all" if kinds == list(classes) else ", ".join(kinds), meaning]
        for (name, shown, meaning), kinds in sorted(owners.items(), key=lambda one: list(defaults).index(one[1][0]))
    ]
    return table(["option", "default", what, "meaning"], rows, words=range(4))


TABLES = {
    "recipes.md": {
        **{part: partial(settings, part) for part in ("data", "backbone", "training", "evaluation", "transfer")},
        "attributes": attribute_options,
        "task": task_options,
    }
}
