"""The log of the package, and which of its messages and warnings are shown on stderr."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attribune.core.processes import is_main
from attribune.core.wording import one_line
from attribune.errors import AttribuneWarning

VARIABLE = "ATTRIBUNE_LOG"
LOGGER = logging.getLogger("attribune")
_TRACEBACKS = logging.Formatter()
LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}


def is_quiet() -> bool:
    """Whether only errors are to be shown."""
    return not LOGGER.isEnabledFor(logging.WARNING)


def write_line(text: str) -> None:
    """Write a line to stderr, above the bar of a training if there is one."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:  # and so no bar
        sys.stderr.write(f"{text}\n")
    else:
        tqdm.tqdm.write(text, file=sys.stderr)


def show_note(text: str) -> None:
    """Say on stderr what a user may have to correct: through the log if a program shows it; a command says it once."""
    if not LOGGER.isEnabledFor(logging.WARNING):
        return
    handlers = (*LOGGER.handlers, *logging.getLogger().handlers)
    if all(isinstance(handler, logging.NullHandler) for handler in handlers):
        write_line(one_line(text))
    else:
        LOGGER.warning("%s", text, extra={"is_note": True})


@contextmanager
def logging_to_stderr(level: int) -> Iterator[None]:
    """Show the package's log, and its warnings, on stderr while the block runs.

    Of several processes that train together, the first alone shows it.
    """
    handler = _OnStderr(level if is_main() else logging.CRITICAL)
    earlier_level, showwarning = LOGGER.level, warnings.showwarning
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    warnings.showwarning = _log_warning
    try:
        yield
    finally:
        warnings.showwarning = showwarning
        LOGGER.setLevel(earlier_level)
        LOGGER.removeHandler(handler)


EVENT = {"is_event": True}
"""What a record has in `extra` that says what happens now, and is shown each time."""


class _OnStderr(logging.Handler):
    """Writes to stderr; each note and warning once, unless it is an event."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = one_line(record.getMessage())
        if not getattr(record, "is_note", False):
            name = f" {record.name}:" if record.levelno < logging.WARNING else ""
            text = f"{record.levelname.lower()}:{name} {text}"
        if record.levelno >= logging.WARNING and not getattr(record, "is_event", False):
            if text in self._shown:
                return
            self._shown.add(text)
        write_line(text)
        if record.exc_info:
            write_line(_TRACEBACKS.formatException(record.exc_info))


def _log_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Log the warnings of this library as warnings, and those of other packages as details."""
    if issubclass(category, AttribuneWarning):
        LOGGER.warning("%s", message)
    else:
        LOGGER.debug("%s: %s", category.__name__, message)
