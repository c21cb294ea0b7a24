"""The table of explain.md: what the adapters of each span of layers contribute, from benchmarks/layers.py."""

from __future__ import annotations

from attribune.metrics.tables import format_value
from pages.cells import measured, table

__all__ = ["TABLES"]


def layers() -> list[str]:
    """The change of the metric by the first and the last layer that is off."""
    found = measured("layers")
    changes = {
        (span["first"], span["last"]): format_value(found["metric"], -span["difference"], sign=True)
        for span in found["spans"]
    }
    head = ["first \\ last", *map(str, found["layers"])]
    lines = [[str(first), *(changes.get((first, last), "") for last in found["layers"])] for first in found["layers"]]
    return table(head, lines)


TABLES = {"explain.md": {"layers": layers}}
