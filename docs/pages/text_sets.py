"""The tables of text_sets.md, made from the cards and from benchmarks/results/text_sets.json."""

from __future__ import annotations

from typing import Any

from attribune_lab.datasets.card import Card
from attribune_lab.datasets.sets import ADDITIONAL, GLUE
from pages.cells import measured, table


def found(card: Card) -> dict[str, Any]:
    """What was found of a set."""
    return dict(measured("text_sets")["sets"][card.name])


def glue() -> list[str]:
    """The tasks of GLUE: the metric, the training rows that are published and the rows that were prepared."""
    rows = []
    for card in GLUE:
        published = next(file.rows for file in card.files if file.rows)
        prepared = found(card)["rows"]
        cells = (f"{count:,}" for count in (published, prepared["train"], prepared["test"]))
        rows.append([f"`{card.name}`", card.metric, *cells])
    return table(["name", "metric", "published", "train", "test"], rows, words=(0, 1))


def additional() -> list[str]:
    """The other sets: the attributes, the classes, and the training rows of the paper's table 3 and as prepared."""
    rows = []
    for card in ADDITIONAL:
        one = found(card)
        counts = (one["classes"], card.published["train"], one["rows"]["train"])
        rows.append([f"`{card.name}`", ", ".join(card.names()), *(f"{count:,.0f}" for count in counts)])
    return table(["name", "attributes", "classes", "paper", "here"], rows, words=(0, 1))


TABLES = {"text_sets.md": {"glue": glue, "additional": additional}}
