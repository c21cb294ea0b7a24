"""What the verbs write: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from attribune.core.terminal import printable

if TYPE_CHECKING:
    from attribune.core.console import ConsoleReporter

__all__ = ["open_console", "results_text", "show", "show_json", "tell"]


def show(text: str) -> None:
    """Write a result to stdout."""
    text = printable(text)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def tell(text: str) -> None:
    """Write a message of several lines to stderr."""
    sys.stderr.write(f"{printable(text)}\n")


def show_json(tree: Any, *, ensure_ascii: bool = True) -> None:
    """Write a result to stdout as JSON."""
    show(json.dumps(tree, indent=1, ensure_ascii=ensure_ascii))


def open_console() -> ConsoleReporter:
    """Silence the libraries in use, and return the reporter of notes and progress on stderr."""
    from attribune.core.console import ConsoleReporter, quiet_libraries

    quiet_libraries()
    return ConsoleReporter()


def results_text(run: str) -> str:
    """Return the tables of a run's metrics, its comparisons and its cost."""
    from attribune.runs.folder import RunFolder

    return RunFolder.of(run).read_results().text()
