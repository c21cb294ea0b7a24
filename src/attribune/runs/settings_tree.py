"""Trees of settings, laid over each other: by flags, and by the arguments of a function."""

from __future__ import annotations

from typing import Any

from attribune.core.flags import ARGUMENTS, FLAGS
from attribune.data.file_options import Reading
from attribune.errors import ConfigError

_SHORT_FORMS = {"method": "name", "task": "kind"}


SETTINGS = ARGUMENTS | {name: (f"data.{name}",) for name in Reading.__annotations__}
"""The settings of a recipe behind each argument of `train`, and each flag, that is taken as it is."""


def written_out(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with the short forms ``method: NAME`` and ``task: KIND`` as trees."""
    short = {key: {name: settings[key]} for key, name in _SHORT_FORMS.items() if isinstance(settings.get(key), str)}
    return {**settings, **short}


def override(settings: dict[str, Any], overrides: dict[str, Any]) -> None:
    """Override a tree of settings by another; the options of another method are dropped."""
    overrides = written_out(overrides)
    if method_name(overrides) is not None and not _same_method(method_name(settings), method_name(overrides)):
        settings.pop("method", None)
    _merge(settings, overrides)


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    """Lay one tree over another; at this depth an attribute may be called method or task."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def put(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set one value by its path, such as ``training.epochs``; the options of another method are dropped."""
    if key in _SHORT_FORMS and isinstance(value, str):
        key = f"{key}.{_SHORT_FORMS[key]}"
    if key == "method.name" and not _same_method(method_name(settings), value):
        settings["method"] = {}
    tree = settings
    *path, last = key.split(".")
    for step in path:
        if step == "transfer" and tree.get(step) is None:
            tree[step] = {}  # the one group that a recipe may leave empty
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{key}: {step!r} is not a group of settings: give it as a tree, see any recipe.yaml")
    tree[last] = value


def method_name(settings: dict[str, Any]) -> Any:
    """Return the name of the method in a tree of settings; None where there is none."""
    method = settings.get("method")
    return method.get("name") if isinstance(method, dict) else None


def _same_method(one: Any, other: Any) -> bool:
    default = FLAGS["method.name"].default
    first, second = ([word.strip() for word in str(name or default).split("+")] for name in (one, other))
    return first == second
