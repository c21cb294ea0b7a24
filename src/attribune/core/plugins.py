"""What other installed packages bring, found by their entry points: methods, tasks, data sets, verbs and more."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from attribune.errors import AttribuneWarning

_PACKAGE = "attribune"


def load_plugins(group: str, expected: Any) -> dict[str, Any]:
    """Load what installed packages offer under ``attribune.GROUP``, by name.

    A warning names what cannot be loaded, or is neither a subclass nor an instance of `expected`; it is left out, and
    commands that do not need it work. The lab, which is installed with this package, may have been taken away.
    """
    loaded = {}
    for entry in _entry_points().select(group=f"{_PACKAGE}.{group}"):
        if entry.name in absent_plugins(group):
            continue
        try:
            value = entry.load()
            if not isinstance(value, expected) and not (isinstance(value, type) and issubclass(value, expected)):
                raise TypeError(f"{value!r} is not a {expected.__name__}")
            loaded[entry.name] = value
        except Exception as error:  # whatever the code of others raises
            package = entry.dist.name if entry.dist is not None else entry.value
            warnings.warn(
                f"{entry.name!r} of attribune.{group} is left out: the package {package} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or remove it",
                AttribuneWarning,
                stacklevel=2,
            )
    return loaded


@cache
def absent_plugins(group: str) -> dict[str, str]:
    """Return the names under ``attribune.GROUP`` whose package belongs to this installation and is not there.

    Each has the rest of a sentence that begins with it.
    """
    return {
        entry.name: f"is in the package {package}, which is not there: install {_PACKAGE} again, as a whole"
        for entry in _bundled(group)
        if find_spec(package := entry.module.partition(".")[0]) is None
    }


def bundled_plugins(group: str) -> dict[str, str]:
    """Return the places, as ``module.name``, of what packages bring that are installed with this one, by name."""
    return {entry.name: f"{entry.module}.{entry.attr}" for entry in _bundled(group)}


def _bundled(group: str) -> Iterator[Any]:
    for entry in _entry_points().select(group=f"{_PACKAGE}.{group}"):
        if entry.dist is not None and entry.dist.name == _PACKAGE:
            yield entry


@cache
def _entry_points() -> Any:
    return metadata.entry_points()
