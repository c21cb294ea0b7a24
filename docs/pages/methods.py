"""Which method to take, and what cheap ones lose: tables of the pages on methods, made from result files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attribune.methods.recommended import RECOMMENDED
from attribune_lab.benchmark.tables import Line
from pages.cells import between, measured, table
from pages.counts import counts, tunings
from pages.experiments import difference, record
from pages.method_pages import LAB, LIBRARY, ON_PAGE, block, overview


def recommended(columns: int | None = None) -> list[str]:
    """What to take for which need, with what it keeps of the bare model's throughput and what it explains.

    Args:
        columns: how many of them are shown; None for all.
    """
    speed = _speeds()
    tables = record("judges_small").tables
    explained = [{line.name: line for line in each.lines} for each in tables]
    rows = [
        [
            f"`{method}`",
            when,
            speed.get("made anew" if method == "injector" else method, ""),
            *(between(*_ends(lines[method]), places=3) if method in lines else "" for lines in explained),
        ]
        for method, when in RECOMMENDED
    ]
    alone = [between(*_ends(lines["text alone"]), places=3) for lines in explained]
    rows.append(["`none`", "a reference: the same backbone, fine-tuned on the text alone", "1.00", *alone])
    head = ["`--method`", "use it when", "speed", *(f"R², {each.plan.title}" for each in tables)]
    return table(head[:columns], [row[:columns] for row in rows], words=(0, 1))


def cheap() -> list[str]:
    """How far cheap methods are from the Injector: R² and points of accuracy."""
    tables = record("cheap").tables
    found = [{line.name: line for line in one.lines} for one in tables]
    rows = [
        [name, *(difference(one, lines[name]) for one, lines in zip(tables, found, strict=True))]
        for name in found[0]
        if name != tables[0].reference
    ]
    return table(["", "politeness, R²", "critics, points"], rows)


def _speeds() -> dict[str, str]:
    """The throughput with a different user in each row, as a fraction of the bare model's, by method."""
    shares = next(one["of_bare"] for one in measured("prediction")["measured"] if _is_short(one))
    return {name: f"{share:.2f}" for name, share in shares.items()}


def _is_short(one: Mapping[str, Any]) -> bool:
    return one["shape"] == "minilm, two attributes" and one["precision"] == "bf16" and "of_bare" in one


def _ends(line: Line) -> tuple[float, float, float]:
    found = line.metrics["r2"]
    return found.value, found.low, found.high


TABLES: dict[str, dict[str, Callable[[], list[str]]]] = {
    "methods.md": {
        "recommended": partial(recommended, columns=3),
        "methods": partial(overview, LIBRARY, "methods/"),
        "counts": counts,
    },
    "../README.md": {"recommended": recommended},
}
for _page, _names in ON_PAGE.items():
    TABLES[f"methods/{_page}"] = {name: partial(block, name, _names[0]) for name in _names}
TABLES["methods/none.md"] |= {"tunings": tunings}
TABLES["methods/injector.md"] |= {"cheap": cheap}
TABLES["methods/lab.md"] = {"methods": partial(overview, LAB, "")}
