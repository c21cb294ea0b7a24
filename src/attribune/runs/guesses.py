"""What a training on a table takes from a check of the table, where its text or its label is not named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from attribune.core.door import as_argument
from attribune.data.checking.table_check import TableCheck, check
from attribune.data.file_options import Reading
from attribune.errors import ConfigError
from attribune.runs.settings_tree import override
from attribune.schema.kinds import kind_settings

_NAMED = ("data", *(f"data.{name}" for name in ("text_pair", "text_negative", "prompt")))
"""Settings of trainings whose columns are all named: with any of them, nothing is guessed."""
_TASKS = ("classification", "rating", "ordinal", "regression")
"""The tasks whose columns are guessed, and aspects, if the labels are named; others are named with their columns."""


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """What was guessed.

    Attributes:
        checked: the check of the table, which says it.
        settings: of the recipe, as a tree; what is given is not among them.
    """

    checked: TableCheck
    settings: dict[str, Any]


def guess_settings(data: Any, given: Mapping[str, Any], *, test: Any = None) -> Guesses | None:
    """Guess columns, attributes and task of a training; None where text and label are named, or another task.

    The command line and `train` both ask it.

    Args:
        data: anything that `read_table` takes.
        given: settings of the recipe by their paths, such as ``task.kind``; what they say is not guessed.
        test: the rows for testing, if there are any.

    Raises:
        ConfigError: for an attribute that is taken for a text or a label.
        DataError: for a table that cannot be read.
    """
    task = given.get("task.kind", given.get("task"))
    kind = task.get("kind", "classification") if isinstance(task, Mapping) else task
    text, label = _listed(given.get("data.text")), _listed(given.get("data.label"))
    tasks = _TASKS if len(label) < 2 else ("aspects",)
    if any(name in given for name in _NAMED) or kind not in (None, *tasks) or (text and label):
        return None
    reading = {name: given[f"data.{name}"] for name in Reading.__annotations__ if f"data.{name}" in given}
    named: dict[str, Any] = {"text": text or None, "label": label or None}
    named["missing"] = given.get("data.missing")
    checked = check(data, test=test, **named, **cast("Reading", reading))
    guessed = dict(checked.arguments)
    if (attributes := given.get("data.attributes")) is not None:
        _check_apart(attributes, checked)
        guessed = {name: value for name, value in guessed.items() if name not in ("attributes", "method")}
    if "data.weight" in given:
        guessed.pop("weight", None)
    if "method" in given or "method.name" in given:
        guessed.pop("method", None)
    if kind is not None and checked.task is not None and kind != checked.task.kind:
        guessed.pop("task", None)
    settings: dict[str, Any] = {}
    for name, value in guessed.items():
        if name in ("method", "task"):
            override(settings, {name: value})
        else:
            listed = [kind_settings(one) for one in value] if name == "attributes" else value
            override(settings, {"data": {name: listed}})
    return Guesses(checked=checked, settings=settings)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def _check_apart(attributes: Any, checked: TableCheck) -> None:
    """Refuse attributes that the check takes for something else that is learned from."""
    listed = _listed(attributes)
    names = [one.get("name") if isinstance(one, Mapping) else getattr(one, "name", one) for one in listed]
    for role in ("text", "label"):
        if taken := [name for name in names if name in checked.names(role)]:
            raise ConfigError(
                f"the column {taken[0]!r} is named as an attribute, and looks like the {role} of the table: name the "
                f"columns of the text and the label too with {as_argument('data.text')} and {as_argument('data.label')}"
            )
