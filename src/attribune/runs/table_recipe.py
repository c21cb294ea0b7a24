"""The recipe of a training on a table, from the arguments of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError

from attribune.data.checking.table_check import TableCheck
from attribune.data.tables import table_source_name
from attribune.errors import ConfigError
from attribune.methods import MethodConfig
from attribune.runs.guesses import guess_settings
from attribune.runs.recipe import Recipe
from attribune.runs.settings_tree import SETTINGS, override

_WITH_OPTIONS = {"method": "name", "task": "kind"}  # arguments that may be mappings, with the key of their name
_TABLES = {"data": "train", "validation": "validation", "test": "test"}


def table_recipe(
    arguments: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    say: Callable[[TableCheck], None] = lambda checked: None,
) -> tuple[Recipe, dict[str, Any] | None]:
    """Return the recipe of a training, and its tables where they are no files.

    Args:
        arguments: of `train`, by their names in `SETTINGS`; None is left to its default.
            ``data``, ``validation`` and ``test`` may be tables.
        settings: of the recipe by their paths, such as ``training.weight_decay``, which override the arguments.
        say: is called with the check of the table where its columns are guessed, see `guess_settings`.

    Raises:
        ConfigError: with every error at once.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    tables = {part: given[name] for name, part in _TABLES.items() if name in given}
    are_files = all(isinstance(table, str | Path) for table in tables.values())
    if not isinstance(settings, Mapping):
        raise ConfigError(f"settings is {settings!r:.80}: give a mapping, such as {{'training.weight_decay': 0.1}}")
    changes: list[tuple[str, Any]] = []
    for name, value in given.items():
        plain = table_source_name(value) if name in _TABLES else _plain(name, value)
        paths = (name,) if name in _WITH_OPTIONS else SETTINGS[name]
        changes += [(path, plain) for path in paths]
    changes += [(str(path), _plain(str(path), value)) for path, value in settings.items()]
    tree: dict[str, Any] = {}
    guesses = guess_settings(given["data"], dict(changes), test=given.get("test")) if "data" in given else None
    if guesses is not None:
        if guesses.checked.export is not None:
            raise ConfigError(f"{guesses.checked.export}:\n{guesses.checked.call}")
        say(guesses.checked)
        tree = guesses.settings
    for path, value in changes:
        override(tree, _branch(path, value))
    recipe = Recipe.from_dict(tree)
    files: dict[str, str | None] = {part: getattr(recipe.data, part) for part in _TABLES.values()}
    for name, part in _TABLES.items():
        if part in tables and files[part] != table_source_name(tables[part]):
            raise ConfigError(
                f"{name} is given, and settings has data.{part} ({files[part]}), which would be read instead: leave "
                "one of them out"
            )
    if not are_files:
        tables |= {part: file for part, file in files.items() if file and part not in tables}
    try:
        recipe.to_yaml()
    except PydanticSerializationError as error:
        raise ConfigError(f"a setting is no plain value ({error}): give texts, numbers, or lists of them") from error
    return recipe, None if are_files else tables


def _plain(name: str, value: Any) -> Any:
    if name == "method" and isinstance(value, MethodConfig):
        return value.to_dict()
    if name in _WITH_OPTIONS and not isinstance(value, str):
        if not isinstance(value, Mapping):
            key = _WITH_OPTIONS[name]
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
