"""How much is said on stderr: ``--verbose`` and ``--quiet`` of every verb, the variable ``ATTRIBUNE_LOG``, and the log.

The level of the logger ``attribune`` decides for the log, for notes and progress, and for the libraries below.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attribune.errors import AttribuneWarning, ConfigError

__all__ = ["LOGGER", "VARIABLE", "VerbParser", "is_quiet", "level_of", "logging_to_stderr"]

VARIABLE = "ATTRIBUNE_LOG"
LOGGER = logging.getLogger("attribune")
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}


class VerbParser(argparse.ArgumentParser):
    """A parser whose verbs, and their verbs, all have ``--verbose`` and ``--quiet``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        told = self.add_argument_group("messages").add_mutually_exclusive_group()
        # Without a default here, what was said before a verb of this verb is kept.
        told.add_argument(
            *("-v", "--verbose"),
            action="count",
            default=argparse.SUPPRESS,
            help=f"say what is done; twice: all details ({VARIABLE}=info, =debug)",
        )
        told.add_argument(
            *("-q", "--quiet"),
            action="store_true",
            default=argparse.SUPPRESS,
            help=f"say nothing but results and errors ({VARIABLE}=error)",
        )


def level_of(options: argparse.Namespace) -> int:
    """The level that the flags, or else the variable, ask for.

    Raises:
        ConfigError: when the variable holds something else than a level.
    """
    if getattr(options, "quiet", False):
        return logging.ERROR
    if verbose := getattr(options, "verbose", 0):
        return logging.INFO if verbose == 1 else logging.DEBUG
    named = os.environ.get(VARIABLE, "") or "warning"
    if named.lower() not in _LEVELS:
        raise ConfigError(f"{VARIABLE} is {named!r}: set it to {', '.join(_LEVELS)}, or unset it")
    return _LEVELS[named.lower()]


def is_quiet() -> bool:
    """Whether only errors are to be shown."""
    return not LOGGER.isEnabledFor(logging.WARNING)


@contextmanager
def logging_to_stderr(level: int) -> Iterator[None]:
    """Show the package's log, and its warnings, on stderr while the block runs.

    Of several processes that train together, the first shows what all have to say.
    """
    handler = _OnStderr(level if os.environ.get("RANK", "0") == "0" else logging.CRITICAL)
    before, shown = LOGGER.level, warnings.showwarning
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    warnings.showwarning = _log_warning
    try:
        yield
    finally:
        warnings.showwarning = shown
        LOGGER.setLevel(before)
        LOGGER.removeHandler(handler)


class _OnStderr(logging.Handler):
    """Writes to what is stderr at the time: a progress bar puts something else in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        place = f" {record.name}:" if record.levelno < logging.WARNING else ""
        sys.stderr.write(f"{record.levelname.lower()}:{place} {record.getMessage()}\n")


def _log_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """The library's own warnings are the user's business; those of other packages are details."""
    if issubclass(category, AttribuneWarning):
        LOGGER.warning("%s", message)
    else:
        LOGGER.debug("%s: %s", category.__name__, message)
