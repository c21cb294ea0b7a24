"""The results of a run as tables for a terminal."""

from __future__ import annotations

from attribune.metrics.tables import comparison_lines, text_table
from attribune.runs.results import RunResults

__all__ = ["results_text"]


def results_text(results: RunResults) -> str:
    """Return the tables of a run, its comparisons and its cost."""
    blocks = [
        f"{part}, {results.rows[part]:,} rows\n{text_table(rows)}"
        for part in ("validation", "test")
        if (rows := results.table(part))
    ]
    blocks.append("\n".join(comparison_lines(results.comparisons)))
    sizes = results.training.parameters
    blocks.append(
        f"{sizes.trained:,} of {sizes.total:,} parameters trained, {sizes.stored:,} stored "
        f"({sizes.stored_bytes / 1e6:.1f} MB); trained in {results.training.seconds:,.0f} s"
    )
    return "\n\n".join(block for block in blocks if block)
