"""The recipe of a training on a table, from the arguments of a function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError

from attribune.data.tables import table_source_name
from attribune.errors import ConfigError
from attribune.methods import MethodConfig
from attribune.runs.recipe import Recipe
from attribune.runs.settings_tree import SETTINGS, override

__all__ = ["table_recipe"]

_TABLES = {"data": "train", "validation": "validation", "test": "test"}


def table_recipe(arguments: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[Recipe, dict[str, Any] | None]:
    """Return the recipe of a training, and its tables where they are no files.

    Args:
        arguments: of `train`, by their names in `SETTINGS`, with ``attributes``, ``values`` and ``seed``; None is left
            to its default. ``data``, ``validation`` and ``test`` may be tables.
        settings: of the recipe by their paths, such as ``training.weight_decay``, which override the arguments.

    Raises:
        ConfigError: with every error at once.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    tables = {part: given[name] for name, part in _TABLES.items() if name in given}
    are_files = all(isinstance(table, str | Path) for table in tables.values())
    given |= {name: table_source_name(given[name]) for name in _TABLES if name in given}
    tree: dict[str, Any] = {}
    for name, value in given.items():
        for path in ("data.split.seed", "training.seed") if name == "seed" else (_path(name, value),):
            override(tree, _branch(path, _plain(name, value)))
    if not isinstance(settings, Mapping):
        raise ConfigError(f"settings is {settings!r:.80}: give a mapping, such as {{'training.weight_decay': 0.1}}")
    for path, value in settings.items():
        override(tree, _branch(str(path), value))
    recipe = Recipe.from_dict(tree)
    try:
        recipe.to_yaml()
    except PydanticSerializationError as error:
        raise ConfigError(f"a setting is no plain value ({error}): give texts, numbers, or lists of them") from error
    return recipe, None if are_files else tables


def _path(name: str, value: Any) -> str:
    """Return the setting behind an argument; a method or a task may have options."""
    if name in ("attributes", "values"):
        return f"data.{name}"
    return name if name in ("method", "task") else SETTINGS[name]


def _plain(name: str, value: Any) -> Any:
    if name == "method" and isinstance(value, MethodConfig):
        return value.to_dict()
    if name in ("method", "task") and not isinstance(value, str):
        if not isinstance(value, Mapping):
            key = "name" if name == "method" else "kind"
            raise ConfigError(f"{name} is {value!r:.80}: give its {key}, or a mapping of its options with the {key}")
        return dict(value)
    return str(value) if isinstance(value, Path) else value


def _branch(path: str, value: Any) -> dict[str, Any]:
    """Return the tree with one setting."""
    *groups, last = path.split(".")
    tree = {last: dict(value) if isinstance(value, Mapping) else value}
    for group in reversed(groups):
        tree = {group: tree}
    return tree
