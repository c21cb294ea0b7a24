"""The data sets, a file for each source, and the table by which commands find them."""

from __future__ import annotations

import difflib

from attribune.benchmark.cards import Card
from attribune.benchmark.sets.aapr import AAPR
from attribune.benchmark.sets.beer import BEER
from attribune.benchmark.sets.easy import AMAZON, CRITICS
from attribune.benchmark.sets.food import FOOD, FOODCOM_REVIEWS
from attribune.benchmark.sets.goodreads import GOOD
from attribune.benchmark.sets.polmed import POLMED
from attribune.benchmark.sets.tang import COLD, TANG
from attribune.errors import ConfigError

__all__ = ["ATTRIB", "CARDS", "find_card"]

ATTRIB: tuple[Card, ...] = (*TANG, AAPR, POLMED, FOOD, GOOD, BEER, *COLD)
"""The fourteen sets of Amplayo, Yoo and Lee 2022."""

CARDS: dict[str, Card] = {card.name: card for card in (*ATTRIB, CRITICS, FOODCOM_REVIEWS, AMAZON)}
"""Every set by its name."""


def find_card(name: str) -> Card:
    """The card of a set.

    Raises:
        ConfigError: for an unknown name, listing those there are.
    """
    if name not in CARDS:
        close = difflib.get_close_matches(name, CARDS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown data set {name!r}: choose one of {', '.join(CARDS)}{hint}")
    return CARDS[name]
