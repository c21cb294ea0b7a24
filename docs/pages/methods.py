"""Which method to take, and what cheap ones lose: tables of the pages on methods, made from result files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attribune.methods.recommended import RECOMMENDED
from attribune_lab.benchmark.tables import SetTable
from pages.cells import measured, table
from pages.counts import tunings
from pages.experiments import difference, record
from pages.method_pages import LAB, LIBRARY, ON_PAGE, block, overview


def recommended(*, explained: bool) -> list[str]:
    """What to take for which need, with what it keeps of the bare model's throughput.

    Args:
        explained: whether to show which share of the variance of judgements it explains, too.
    """
    speed = _speeds()
    tables = record("judges_small").tables if explained else ()
    rows = [(method, method, method, when) for method, when in RECOMMENDED] + [
        ("none", "text alone", "", "a reference: the same backbone, fine-tuned on the text alone")
    ]
    cells = [
        [
            f"`{method}`",
            when,
            "1.00" if method == "none" else speed.get(key, ""),
            *(_variance(one, name) for one in tables),
        ]
        for method, name, key, when in rows
    ]
    head = ["`--method`", "use it when", "speed", *(f"R², {one.plan.name.rpartition('-')[2]}" for one in tables)]
    return table(head, cells, words=(0, 1))


def _variance(one: SetTable, name: str) -> str:
    return next((f"{line.metrics['r2'].value:.2f}" for line in one.lines if line.name == name), "")


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
    return one["shape"] == "minilm, two attributes" and one["precision"] == "float32"


TABLES: dict[str, dict[str, Callable[[], list[str]]]] = {
    "methods.md": {
        "recommended": partial(recommended, explained=False),
        "methods": partial(overview, LIBRARY, "methods/"),
    },
    "../README.md": {"recommended": partial(recommended, explained=True)},
}
for _page, _names in ON_PAGE.items():
    TABLES[f"methods/{_page}"] = {name: partial(block, name, _names[0]) for name in _names}
TABLES["methods/none.md"] |= {"tunings": tunings}
TABLES["methods/injector.md"] |= {"cheap": cheap}
TABLES["methods/lab.md"] = {"methods": partial(overview, LAB, "")}
