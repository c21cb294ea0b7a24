"""The data sets, one file for each source, and the registry by which commands find them."""

from __future__ import annotations

from attribune.core.plugins import load_plugins
from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError
from attribune_lab.datasets.card import Card
from attribune_lab.datasets.sets.aapr import AAPR
from attribune_lab.datasets.sets.additional import ADDITIONAL, NEWS_TITLES
from attribune_lab.datasets.sets.beer import BEER
from attribune_lab.datasets.sets.convarg import UKPCONVARG1
from attribune_lab.datasets.sets.critics import CRITICS
from attribune_lab.datasets.sets.food import FOOD
from attribune_lab.datasets.sets.glue import GLUE
from attribune_lab.datasets.sets.goodreads import GOOD
from attribune_lab.datasets.sets.lewidi import LEWIDI
from attribune_lab.datasets.sets.politeness import POLITENESS
from attribune_lab.datasets.sets.polmed import POLMED
from attribune_lab.datasets.sets.popquorn import POPQUORN_OFFENSIVENESS
from attribune_lab.datasets.sets.reviews import AMAZON, FOODCOM_REVIEWS
from attribune_lab.datasets.sets.squad import SQUAD
from attribune_lab.datasets.sets.studemo import STUDEMO, STUDEMO_AROUSAL
from attribune_lab.datasets.sets.tang import COLD, TANG
from attribune_lab.datasets.sets.tid8 import TID8

__all__ = ["ADDITIONAL", "ATTRIB", "CARDS", "GLUE", "JUDGED", "SQUAD", "TEXT_SETS", "find_card"]

ATTRIB: tuple[Card, ...] = (*TANG, AAPR, POLMED, FOOD, GOOD, BEER, *COLD)
"""The fourteen sets of Amplayo, Yoo and Lee 2022."""

TEXT_SETS: tuple[Card, ...] = (*GLUE, *ADDITIONAL, NEWS_TITLES, *SQUAD)
"""GLUE, the sets that Houlsby et al. 2019 add to it, another version of one of these, and SQuAD."""

JUDGED: tuple[Card, ...] = (POLITENESS, STUDEMO, STUDEMO_AROUSAL, POPQUORN_OFFENSIVENESS, *LEWIDI, UKPCONVARG1, *TID8)
"""Texts that several people judge, with the judgement of each."""

CARDS: dict[str, Card] = {card.name: card for card in (*ATTRIB, CRITICS, FOODCOM_REVIEWS, AMAZON, *JUDGED, *TEXT_SETS)}
"""Every set by its name, those of plugins among them."""


def find_card(name: str) -> Card:
    """Return the card of a set.

    Raises:
        ConfigError: for an unknown name, listing the known ones.
    """
    if name not in CARDS:
        hint = did_you_mean(name, CARDS)
        raise ConfigError(f"unknown data set {name!r}: choose one of {', '.join(CARDS)}{hint}")
    return CARDS[name]


CARDS |= load_plugins("datasets", Card) | CARDS  # a plugin replaces none of ours
