"""The tables of text_sets.md, made from the cards and from benchmarks/results/text_sets.json."""

from __future__ import annotations

from typing import Any

from attribune_lab.datasets.card import Card
from attribune_lab.datasets.sets import ADDITIONAL, GLUE, SQUAD
from pages.cells import measured, table

PARTS = ("train", "validation", "test")


def found(card: Card) -> dict[str, Any]:
    """What was found of a set."""
    return dict(measured("text_sets")["sets"][card.name])


def sizes(rows: Any) -> list[str]:
    """The rows of each part."""
    return [f"{rows[part]:,.0f}" for part in PARTS]


def glue() -> list[str]:
    """The tasks of GLUE: what is published, and what was prepared."""
    rows = []
    for card in GLUE:
        one = found(card)
        published = [f"{file.rows:,}" for file in card.files if file.rows]
        read = [f"{one['read'][role]:,}" for role in ("train", "test")]
        texts = "two" if card.pair else "one"
        names = ", ".join(card.names())
        rows.append([f"`{card.name}`", texts, names, card.metric, *published, *read, *sizes(one["rows"])])
    head = ["name", "texts", "attributes", "metric", "train, published", "test, published", "train, read", "test, read"]
    return table([*head, *PARTS], rows, words=(0, 1, 2, 3))


def squad() -> list[str]:
    """The versions of SQuAD: what is published, and what was prepared."""
    sets, rows = measured("text_sets")["sets"], []
    for card in SQUAD:
        read = [f"{sets[card.name]['read'][role]:,}" for role in ("train", "test")] if card.name in sets else ["", ""]
        parts = sizes(sets[card.name]["rows"]) if card.name in sets else ["", "", ""]
        rows.append([f"`{card.name}`", *(f"{file.rows:,}" for file in card.files if file.rows), *read, *parts])
    head = ["name", "train, published", "test, published", "train, read", "test, read"]
    return table([*head, *PARTS], rows, words=(0,))


def additional() -> list[str]:
    """The other sets: the paper's table 3, and what was prepared."""
    rows = []
    for card in ADDITIONAL:
        one = found(card)
        cells = [f"`{card.name}`", ", ".join(card.names()), *sizes(card.published), *sizes(one["rows"])]
        pairs = [(card.published["classes"], one["classes"]), (card.published["characters"], one["characters"])]
        rows.append([*cells, *(f"{theirs:,.0f} / {ours:,.0f}" for theirs, ours in pairs)])
    head = ["name", "attributes", "train", "validation", "test", "train here", "validation here", "test here"]
    return table([*head, "classes, paper / here", "characters, paper / here"], rows, words=(0, 1))


def remarks() -> list[str]:
    """What was left out and what differs, of each set."""
    rows = []
    for card in (*GLUE, *ADDITIONAL, SQUAD[0]):
        one = found(card)
        counted = [f"{kind}: {count:,}" for kind, count in (one["left_out"] | one["remarks"]).items()]
        if said := [*counted, *one["differences"]]:
            rows.append([f"`{card.name}`", "; ".join(said)])
    return table(["name", "left out or different"], rows, words=(0, 1))


TABLES = {"text_sets.md": {"glue": glue, "additional": additional, "squad": squad, "remarks": remarks}}
