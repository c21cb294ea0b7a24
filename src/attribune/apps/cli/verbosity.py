"""How much is written to stderr: ``--verbose`` and ``--quiet`` of every verb, and the variable ``ATTRIBUNE_LOG``.

The level of the logger ``attribune`` decides for the log, for notes and progress, and for the libraries below.
"""

from __future__ import annotations

import argparse
import logging
import os

from attribune.core.logs import LEVELS, VARIABLE
from attribune.errors import ConfigError


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Add ``--verbose`` and ``--quiet``."""
    flags = parser.add_argument_group("messages").add_mutually_exclusive_group()
    # A default would overwrite what was given before an action of this verb.
    flags.add_argument(
        *("-v", "--verbose"),
        action="count",
        default=argparse.SUPPRESS,
        help=f"show detailed progress; twice: everything ({VARIABLE}=info, =debug)",
    )
    flags.add_argument(
        *("-q", "--quiet"),
        action="store_true",
        default=argparse.SUPPRESS,
        help=f"show only results and errors ({VARIABLE}=error)",
    )


def level_of(options: argparse.Namespace) -> int:
    """Return the log level that the flags, or else the variable, ask for.

    Raises:
        ConfigError: when the variable names no level.
    """
    if getattr(options, "quiet", False):
        return logging.ERROR
    if verbose := getattr(options, "verbose", 0):
        return logging.INFO if verbose == 1 else logging.DEBUG
    name = os.environ.get(VARIABLE, "") or "warning"
    if name.lower() not in LEVELS:
        raise ConfigError(f"{VARIABLE} is {name!r}: set it to {', '.join(LEVELS)}, or unset it")
    return LEVELS[name.lower()]
