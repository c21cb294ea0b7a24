"""Old names of arguments, settings and flags, which work for one release with a warning that gives the new name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from attribune.errors import AttribuneDeprecationWarning

__all__ = ["renamed_arguments", "renamed_settings", "warn_renamed"]

P = ParamSpec("P")
R = TypeVar("R")


def warn_renamed(old: str, new: str, *, stacklevel: int = 2) -> None:
    """Warn that a name has changed; `stacklevel` of the line to blame is counted from the caller."""
    message = f"{old} is now called {new}; the old name will be gone in the next release"
    warnings.warn(message, AttribuneDeprecationWarning, stacklevel=stacklevel + 1)


def renamed_arguments(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function accept keyword arguments by their old names too, given as ``old="new"``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def renamed(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in [name for name in names if name in kwargs]:
                if names[old] in kwargs:
                    raise TypeError(f"{function.__qualname__}() got both {names[old]!r} and its old name {old!r}")
                warn_renamed(f"{function.__qualname__}({old}=)", f"{names[old]}=")
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return renamed

    return decorate


def renamed_settings(settings: Mapping[str, Any], names: Mapping[str, str], *, warn: bool) -> dict[str, Any]:
    """Replace old names of settings by new ones; a setting given by both names is left as it is.

    Args:
        names: old name to new name.
        warn: whether a user wrote the settings, not this library.
    """
    renamed = dict(settings)
    for old, new in names.items():
        if old in renamed and new not in renamed:
            if warn:
                warn_renamed(f"the setting {old}", new, stacklevel=3)
            renamed[new] = renamed.pop(old)
    return renamed
