"""What the verbs write: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attribune.core.wording import one_line, printable

if TYPE_CHECKING:
    from attribune.core.progress import ConsoleReporter


_WORDS: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
_LEAST_WIDTH = 24


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


def terminal_width() -> int:
    """Return the columns of the terminal, or of COLUMNS; 80 where there is none."""
    return shutil.get_terminal_size().columns


def wrapped(text: str) -> str:
    """Return paragraphs as wide as the terminal."""
    lines = (textwrap.wrap(" ".join(part.split()), terminal_width(), **_WORDS) for part in text.split("\n\n"))
    return "\n\n".join("\n".join(paragraph) for paragraph in lines)


def wrapped_table(lines: Sequence[Sequence[str]], *, has_head: bool = True) -> str:
    """Render lines of cells, the head first, as wide as the terminal: the last column is wrapped."""
    lines = [[one_line(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    indent = sum(widths) + 2 * len(widths)
    room = max(_LEAST_WIDTH, terminal_width() - indent)
    shown = []
    for *cells, last in lines:
        start = "".join(f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True))
        first, *more = textwrap.wrap(last, room, **_WORDS) or [""]
        shown.append(f"{start}{first}".rstrip())
        shown += [f"{'':{indent}}{line}" for line in more]
    if has_head:
        longest = max(len(line) - indent for line in shown)
        shown.insert(1, "  ".join("-" * width for width in [*widths, max(longest, 1)]))
    return "\n".join(shown)


def open_console() -> ConsoleReporter:
    """Silence the libraries in use, and return the reporter of notes and progress on stderr."""
    from attribune.core.progress import ConsoleReporter, quiet_libraries

    quiet_libraries()
    return ConsoleReporter()


def results_text(run: str) -> str:
    """Return the tables of a run's metrics, its comparisons and its cost."""
    from attribune.runs.folder import RunFolder

    return RunFolder.of(run).read_results().text()
