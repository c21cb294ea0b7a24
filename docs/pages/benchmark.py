"""The table of benchmark.md, made from the cards of the data sets."""

from __future__ import annotations

from attribune_lab.datasets.sets import CARDS, TEXT_SETS
from pages.cells import table


def data_sets() -> list[str]:
    """The cards."""
    rows = []
    for card in CARDS.values():
        if card in TEXT_SETS:  # which have a page of their own
            continue
        trained = f"{card.published['train']:,.0f}" if "train" in card.published else ""
        rows.append([f"`{card.name}`", ", ".join(card.names()), card.classes_text, trained, card.metric, card.citation])
    head = ["name", "attributes", "classes", "training rows", "metric", "citation"]
    return table(head, rows, words=(0, 1, 4, 5))


TABLES = {"benchmark.md": {"data sets": data_sets}}
