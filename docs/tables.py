"""Write the tables of these pages that follow from the code and from result files.

    python docs/tables.py [PAGE ...]

replaces what stands between the marks of the pages, and draws their drawings
(`python docs/tables.py images/tradeoff.svg`); a test checks that nothing is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from pages import (  # noqa: E402
    attribute_papers,
    benchmark,
    capabilities,
    equations,
    estimators,
    experiments,
    findings,
    forests,
    generation,
    judges,
    large_scale,
    methods,
    performance,
    promises,
    recipes,
    results,
    service,
    systems,
    ten_tables,
    text_sets,
)

MODULES = (
    methods,
    recipes,
    capabilities,
    estimators,
    equations,
    benchmark,
    findings,
    experiments,
    results,
    performance,
    large_scale,
    generation,
    service,
    judges,
    promises,
    systems,
    ten_tables,
    text_sets,
    attribute_papers,
)
TABLES: dict[str, dict[str, Callable[[], list[str]]]] = {}
for module in MODULES:
    for page, tables in module.TABLES.items():
        TABLES[page] = TABLES.get(page, {}) | tables
DRAWINGS = {
    name: lambda draw=draw: forests.in_both_schemes(draw())
    for name, draw in (experiments.DRAWINGS | judges.DRAWINGS | results.DRAWINGS | systems.DRAWINGS).items()
}


def written(page: str, text: str) -> str:
    """A page with its tables made anew."""
    for name, lines in TABLES[page].items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = before + start + "\n" + "\n".join(lines()) + "\n\n" + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    for page in sys.argv[1:] or [*TABLES, *DRAWINGS]:
        path = FOLDER / page
        if page in DRAWINGS:
            path.write_text(DRAWINGS[page](), encoding="utf-8")
            continue
        path.write_text(written(page, path.read_text(encoding="utf-8")), encoding="utf-8")
