"""What the verbs write: results to stdout, notes and progress to stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.core.terminal import printable

if TYPE_CHECKING:
    from attribune.core.console import ConsoleReporter

__all__ = ["open_console", "results_text", "show", "show_json"]


def show(text: str) -> None:
    """Write a result to stdout."""
    text = printable(text)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


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
    from attribune.metrics.tables import comparison_lines, text_table
    from attribune.runs.folder import RunFolder

    results = RunFolder(Path(run)).read_results()
    blocks = []
    for part in ("validation", "test"):
        if rows := results.table(part):
            blocks.append(f"{part}, {results.rows[part]:,} rows\n{text_table(rows)}")
        if judged := results.judgements(part):
            blocks.append(f"{part}, texts with several judgements\n{text_table(judged)}")
    blocks.append("\n".join(comparison_lines(results.comparisons)))
    sizes = results.training.parameters
    blocks.append(
        f"{sizes.trained:,} of {sizes.total:,} parameters trained, {sizes.stored:,} stored "
        f"({sizes.stored_bytes / 1e6:.1f} MB); trained in {results.training.seconds:,.0f} s"
    )
    return "\n\n".join(block for block in blocks if block)
