"""The table of benchmark.md, made from the cards of the data sets."""

from __future__ import annotations

from attribune_lab.datasets.sets import CARDS, TEXT_SETS
from pages.cells import table


def data_sets() -> list[str]:
    """The cards, without those of text data sets and without other splits of a set that the table has."""
    rows = []
    for card in CARDS.values():
        if card in TEXT_SETS or "-cold-" in card.name or card.name.endswith("-annotators"):
            continue
        rows.append([f"`{card.name}`", ", ".join(card.names()), card.classes_text, card.metric])
    return table(["name", "attributes", "classes", "metric"], rows, words=(0, 1, 3))


TABLES = {"benchmark.md": {"data sets": data_sets}}
