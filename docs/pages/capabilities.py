"""The table of recipes.md of what can be done with which task, made from `attribune.tasks.capabilities`."""

from __future__ import annotations

from attribune.tasks import (
    Aspects,
    Classification,
    Generation,
    Ordinal,
    Preference,
    Rating,
    Regression,
    Similarity,
    Spans,
    Tags,
    Task,
)
from attribune.tasks.capabilities import VERBS, can
from pages.cells import table

TASKS: dict[str, Task] = {
    "`classification`": Classification(classes=("bad", "good")),
    "`rating`": Rating(classes=("1", "2", "3")),
    "`ordinal`": Ordinal(classes=("1", "2", "3"), cut_points=(-1.0, 1.0)),
    "`classification` with `multi_label`": Classification(classes=("bad", "good"), multi_label=True),
    "`aspects`": Aspects(names=("look", "taste"), classes=("1", "2")),
    "`regression`": Regression(),
    "`preference`": Preference(),
    "`similarity` of scores or triplets": Similarity(form="scores"),
    "`similarity` of pairs": Similarity(form="pairs"),
    "`tags`": Tags(classes=("O", "B")),
    "`spans`": Spans(),
    "`generation`": Generation(),
}


def capabilities() -> list[str]:
    """Verbs against tasks, those with the same answers in one column."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for name, task in TASKS.items():
        columns.setdefault(tuple("yes" if can(task, verb) else "no" for verb in VERBS), []).append(name)
    rows = [[verb.name, *cells] for verb, *cells in zip(VERBS, *columns, strict=True)]
    head = ["", *(", ".join(names) for names in columns.values())]
    return table(head, rows, words=range(len(head)))


TABLES = {"recipes.md": {"capabilities": capabilities}}
