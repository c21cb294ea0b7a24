"""The flags of a recipe, which `attribune train` and `attribune search` share, and the recipe that they describe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attribune.apps.cli.arguments import SEVERAL, add_reading, add_setting, add_shared, paths_by_name, reading_of
from attribune.apps.cli.output import tell
from attribune.core.door import option_of
from attribune.core.flags import FLAGS, GROUPS
from attribune.errors import ConfigError
from attribune.runs.settings_tree import SETTINGS, method_name, override, put

if TYPE_CHECKING:
    from attribune.runs.recipe import Recipe


def add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `recipe_of` reads: those of `FLAGS`, and what is no single setting."""
    add_shared(parser, "data", nargs="?")
    rows = parser.add_argument_group("rows")
    add_settings(rows)
    add_reading(rows)
    rows.add_argument(
        "--yes",
        action="store_true",
        help="without --text or --label: use what `attribune check` finds, without asking",
    )
    attributes = parser.add_argument_group("attributes")
    add = attributes.add_argument
    add("--attributes", **SEVERAL, metavar="COL", help="columns with one value per row")
    add("--multi-label", **SEVERAL, metavar="COL[:SEP]", help="columns with several values per row")
    add(
        "--hierarchy",
        **SEVERAL,
        metavar="'COL > COL'",
        help="nested columns, the upper ones first, such as 'country > state > city': a value that is missing or not "
        "known is replaced by the level above",
    )
    add("--numeric", **SEVERAL, metavar="COL", help="columns with numbers, split into quantile bins")
    add("--number", **SEVERAL, metavar="COL", help="columns with continuous numbers")
    add("--date", **SEVERAL, metavar="COL[:FORMAT]", help="columns with dates, read as year, month, weekday and age")
    add("--values", **SEVERAL, metavar="COL=FILE", help=FLAGS["data.values"].meaning)
    add_settings(attributes)
    model = parser.add_argument_group("model")
    add_settings(model)
    model.add_argument(
        "--continue",
        dest="continue_from",
        metavar="RUN",
        help="train this run further on other rows, with its recipe; new values are added",
    )
    add_settings(parser.add_argument_group("training"))
    add = parser.add_argument_group("settings").add_argument
    add("--preset", metavar="NAME", help="settings of a paper: injectors-2022, ma-bert, e2ln or houlsby")
    add("--config", metavar="FILE", help="recipe in YAML; flags override it")
    add("--set", **SEVERAL, metavar="KEY=VALUE", default=[], help="any setting of the recipe")


def add_settings(group: argparse._ArgumentGroup) -> None:
    """Add the flags of the settings that stand under the heading of this group."""
    for path in GROUPS[group.title or ""]:
        add_setting(group, path)


def recipe_of(options: argparse.Namespace) -> Recipe:
    """Read the recipe that the flags describe, over that of ``--config`` if there is one.

    Raises:
        ConfigError: with every error at once.
    """
    from attribune.runs.recipe import Recipe

    settings = _base_settings(options)
    _check_max_length(options, settings)
    if options.epochs is not None and isinstance(settings.get("training"), dict):
        settings["training"].pop("steps", None)
    values = {path: getattr(options, argument, None) for argument, paths in SETTINGS.items() for path in paths}
    values["data.quoting"] = reading_of(options).quoting
    values["data.attributes"] = attribute_list(options) or None
    values["data.values"] = {name: {"table": file} for name, file in value_files(options.values or []).items()} or None
    given = {key: value for key, value in values.items() if value is not None}
    changes = dict(sorted(map(_setting, options.set), key=_names_no_method))
    for key in ("data.train", "data.validation", "data.test"):
        table, other = given.get(key), changes.get(key)
        if None not in (table, other) and table != other:
            raise ConfigError(f"{table} is given, and --set {key}={other} would be read instead: leave one of them out")
    if options.data is not None and not (options.config or options.preset or options.continue_from):
        settings = _guessed_settings(options, {**given, **changes})
    for key, value in (*given.items(), *changes.items()):
        put(settings, key, value)
    if files := getattr(options, "word_vectors", None):
        _put_word_vectors(settings, files)
    return Recipe.from_dict(settings)


def _setting(item: str) -> tuple[str, Any]:
    key, equals, text = item.partition("=")
    if not equals:
        raise ConfigError(f"--set {item}: write KEY=VALUE, such as training.weight_decay=0.1")
    return key, _parse_value(item, text)


def _names_no_method(setting: tuple[str, Any]) -> bool:
    """Sort the name of a method before its options, in whatever order they are given."""
    key, value = setting
    return not (key == "method.name" or (key == "method" and isinstance(value, str)))


def _guessed_settings(options: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a check of the table finds, once the user says yes; nothing where the columns are named.

    Raises:
        ConfigError: where nobody can be asked, with the command to paste.
        SystemExit: where the user says no.
    """
    from attribune.runs.guesses import guess_settings

    guesses = guess_settings(options.data, given, test=options.test)
    if guesses is None:
        return {}
    checked = guesses.checked
    tell(checked.text())
    if checked.export is not None:
        raise ConfigError(f"{checked.export}: {checked.command}")
    if not checked.is_complete:
        raise ConfigError(checked.lacking_words("the table"))
    if not options.yes and not _can_ask(options.data):
        raise ConfigError(f"training on guessed columns needs a yes: add --yes, or name the columns: {checked.command}")
    if not options.yes and not _says_yes():
        tell(f"nothing is trained; to train with other columns, change this command: {checked.command}")
        raise SystemExit(0)
    return guesses.settings


def _can_ask(data: str) -> bool:
    return data != "-" and sys.stdin is not None and sys.stdin.isatty()


def _says_yes() -> bool:
    sys.stderr.write("train with these? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def value_files(words: Sequence[str]) -> dict[str, str]:
    """Read the files of ``--values COL=FILE``, by column."""
    return paths_by_name(words, form="COLUMN=FILE, such as user=users.csv", flag="--values ")


def _put_word_vectors(settings: dict[str, Any], files: list[str]) -> None:
    """Give the files to the search of automl, else one file to the backbone."""
    if method_name(settings) == "automl":
        put(settings, "method.word_vectors", files)
        return
    if len(files) > 1:
        raise ConfigError(f"--word-vectors names {len(files)} files, but a backbone takes one: name one")
    put(settings, "backbone.word_vectors", files[0])


def _base_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Merge the settings below the flags: --preset, then --continue, then --config."""
    from attribune.core.config import read_yaml
    from attribune.runs.presets import read_preset

    settings: dict[str, Any] = {} if options.preset is None else read_preset(options.preset)
    if options.continue_from is not None:
        if options.preset is not None or options.init_attributes is not None:
            raise ConfigError(
                "--continue uses the recipe and all that the run learned: leave out --preset and --init-attributes"
            )
        override(settings, _continued_recipe(options.continue_from))
    if options.config is not None:
        override(settings, read_yaml(options.config))
    return settings


def _check_max_length(options: argparse.Namespace, settings: dict[str, Any]) -> None:
    data = settings.get("data")
    window = str(data.get("window", "")) if isinstance(data, dict) else ""
    if options.max_length is not None and ":" in window:
        raise ConfigError(
            f"--max-length {options.max_length}: the recipe's window {window!r} already has sizes; change it with "
            "--set data.window=..., or leave out --max-length"
        )


def _continued_recipe(run: str) -> dict[str, Any]:
    """Read the recipe of a run, for other rows."""
    from attribune.runs.folder import RunFolder

    recipe = RunFolder.of(run).read_recipe()
    if not recipe.learner.can_take_over(full_model=True):
        raise ConfigError(
            f"--continue {run}: method {recipe.method['name']!r} is a baseline, which is not trained further: train it "
            f"anew on all rows, with --config {RunFolder.of(run).plan_file}, or continue a run of another method"
        )
    settings: dict[str, Any] = recipe.model_dump(mode="json")
    settings["data"] |= {"train": None, "validation": None, "test": None}
    settings["data"] = {key: value for key, value in settings["data"].items() if value is not None}
    return {**settings, "transfer": {"run": run, "frozen": False, "full_model": True}}


def attribute_list(options: argparse.Namespace) -> list[dict[str, Any]]:
    """List the attributes as a recipe has them, from the words after the flags that the verb has."""
    attributes: list[dict[str, Any]] = []
    for kind in ("categorical", "multi_label", "hierarchy", "numeric", "number", "date"):
        for item in getattr(options, "attributes" if kind == "categorical" else kind, None) or ():
            attribute = {"kind": kind, "name": item}
            if kind in ("multi_label", "date"):
                attribute["name"], _, option = item.partition(":")
                attribute[option_of(kind)] = option or None
            attributes.append(attribute)
    return attributes


def _parse_value(item: str, text: str) -> Any:
    import yaml

    from attribune.core.config import parse_yaml

    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"--set {item}: the value is not YAML ({reason}): put text with special characters in quotes"
        ) from error
