"""What other installed packages bring, found by their entry points: methods, tasks, data sets, verbs and more."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from attribune.errors import AttribuneWarning

__all__ = ["absent_hint", "load_plugins"]

_PACKAGE = "attribune"


def load_plugins(group: str, expected: Any) -> dict[str, Any]:
    """Load what installed packages offer under ``attribune.GROUP``, by name.

    A warning names what cannot be loaded, or is neither a subclass nor an instance of `expected`; it is left out, and
    commands that do not need it work. The lab, which is installed with this package, may have been taken away.
    """
    loaded = {}
    for entry in _entry_points().select(group=f"{_PACKAGE}.{group}"):
        package = entry.dist.name if entry.dist is not None else entry.value
        try:
            value = entry.load()
            if not isinstance(value, expected) and not (isinstance(value, type) and issubclass(value, expected)):
                raise TypeError(f"{value!r} is not a {expected.__name__}")
            loaded[entry.name] = value
        except Exception as error:  # whatever the code of others raises
            if package == _PACKAGE and _is_absent(error, entry.module):
                continue
            warnings.warn(
                f"{entry.name!r} of attribune.{group} is left out: the package {package} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or remove it",
                AttribuneWarning,
                stacklevel=2,
            )
    return loaded


def absent_hint(group: str, name: str) -> str:
    """Say what brings a name, for an error about it, where this package's lab would and is not there; else nothing."""
    for entry in _entry_points().select(group=f"{_PACKAGE}.{group}", name=name):
        package = entry.module.partition(".")[0]
        if entry.dist is not None and entry.dist.name == _PACKAGE and find_spec(package) is None:
            return f": it is in the package {package}, which is not there; install {_PACKAGE} again, as a whole"
    return ""


def _is_absent(error: Exception, module: str) -> bool:
    """Whether the package of a module is not there at all."""
    return isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]


@cache
def _entry_points() -> Any:
    return metadata.entry_points()
