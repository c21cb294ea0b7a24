"""What the pages share: result files, and how their figures are written."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attribune.metrics.tables import markdown_cells

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def measured(name: str) -> dict[str, Any]:
    """A result file of a benchmark."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def machine_line(found: Mapping[str, Any]) -> str:
    """What the figures were measured on."""
    machine = found["machine"]
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    return f"{machine['processor']}, {threads}, torch {machine['torch']}."


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: Collection[int] = (0,)) -> list[str]:
    """The lines of a table; columns of words stand to the left."""
    return markdown_cells([head, *rows], words=words).splitlines()


def between(value: float, low: float, high: float, *, scale: float = 1, places: int = 2, sign: str = "") -> str:
    """A figure with the ends of its interval."""
    figure, *ends = (f"{scale * number:{sign}.{places}f}" for number in (value, low, high))
    return f"{figure} [{', '.join(ends)}]"
