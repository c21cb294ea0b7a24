"""The registry by which commands find data sets."""

from __future__ import annotations

import difflib
from pathlib import Path

from attribune.core.plugins import load_plugins
from attribune.errors import ConfigError
from attribune_lab.datasets.card import Card
from attribune_lab.datasets.card_files import read_cards

_FILES = read_cards(Path(__file__).with_name("cards"))


def _cards_of(*files: str) -> tuple[Card, ...]:
    return tuple(card for file in files for card in _FILES[file])


_NAMED = {card.name: card for card in _cards_of(*_FILES)}
_ATTRIB = ("yelp-2013", "yelp-2014", "imdb", "aapr", "polmed", "food", "good", "beer")
_COLD = tuple(f"{name}-cold-{percent}" for name in ("yelp-2013", "imdb") for percent in (20, 50, 80))

ATTRIB: tuple[Card, ...] = tuple(_NAMED[name] for name in (*_ATTRIB, *_COLD))
"""The fourteen sets of Amplayo, Yoo and Lee 2022."""

GLUE: tuple[Card, ...] = _cards_of("glue")
"""The tasks of GLUE without its diagnostic set; MNLI is two, by its test part."""

ADDITIONAL: tuple[Card, ...] = tuple(card for card in _cards_of("houlsby") if card.published)
"""The sets of table 3 of Houlsby et al. 2019, in its order."""

TEXT_SETS: tuple[Card, ...] = _cards_of("glue", "houlsby", "squad")
"""GLUE, the sets that Houlsby et al. 2019 add to it, another version of one of these, and SQuAD."""

_OTHERS = ("critics", "food", "amazon")
_JUDGED = ("politeness", "studemo", "popquorn", "lewidi", "ukpconvarg1", "prism", "personalllm", "tid8")

CARDS: dict[str, Card] = {card.name: card for card in (*ATTRIB, *_cards_of(*_OTHERS, *_JUDGED), *TEXT_SETS)}
"""Every set by its name, those of plugins among them."""


def find_card(name: str) -> Card:
    """Return the card of a set.

    Raises:
        ConfigError: for an unknown name, listing the known ones.
    """
    if name not in CARDS:
        close = difflib.get_close_matches(name, CARDS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown data set {name!r}: choose one of {', '.join(CARDS)}{hint}")
    return CARDS[name]


CARDS |= load_plugins("datasets", Card) | CARDS  # a plugin replaces none of ours
