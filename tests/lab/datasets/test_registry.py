"""What every card of the registry says: source, version, licence, citation, sizes. Nothing is left out."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import pytest

from attribune_lab.datasets import sets
from attribune_lab.datasets.card import NOT_STATED, Card
from attribune_lab.datasets.sets import ADDITIONAL, ATTRIB, CARDS, GLUE, TEXT_SETS

COMMIT = re.compile(r"\bat [0-9a-f]{40}\b")


@pytest.fixture(params=CARDS)
def card(request: pytest.FixtureRequest) -> Card:
    return CARDS[request.param]


def test_names_and_titles_are_unique() -> None:
    cards = [*CARDS.values()]
    for said in ([card.name for card in cards], [card.title for card in cards]):
        assert [text for text, times in Counter(said).items() if times > 1] == []
    assert [card.name for card in cards] == list(CARDS)
    assert {id(card) for card in ATTRIB} <= {id(card) for card in cards}


def test_every_card_that_is_written_is_registered() -> None:
    modules = [value for name, value in vars(sets).items() if getattr(value, "__package__", None) == sets.__name__]
    assert modules
    written = [card for module in modules for value in vars(module).values() for card in cards_in(value)]
    assert {card.name for card in written} == set(CARDS)


def cards_in(value: object) -> list[Card]:
    several = value if isinstance(value, tuple) else (value,)
    return [one for one in several if isinstance(one, Card)]


@pytest.mark.slow
def test_texts_are_sentences_and_not_blanks(card: Card) -> None:
    for field in dataclasses.fields(card):
        text = getattr(card, field.name)
        if isinstance(text, str) and field.name != "notes":
            assert len(text) > 1, field.name
            assert text == text.strip(), field.name
            assert text.lower() not in {"none", "unknown", "n/a", "todo", "tbd", "-"}, field.name


@pytest.mark.slow
def test_the_licence_is_named_or_said_not_to_be_stated(card: Card) -> None:
    assert card.licence == NOT_STATED or re.fullmatch(r"[A-Z][\w .+-]+", card.licence), card.licence
    assert card.terms != NOT_STATED  # what is known stands in words, whether or not it has a name


@pytest.mark.slow
def test_the_citation_has_a_year(card: Card) -> None:
    assert re.search(r"\b(19|20)\d\d\b", card.citation)


@pytest.mark.slow
def test_the_source_has_a_revision_or_its_files_a_checksum(card: Card) -> None:
    """Or the card says that the source tells no version; a repository is named with a whole commit."""
    assert card.revision
    if "github.com" in card.revision:
        assert COMMIT.search(card.revision)
    for file in card.files:
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256), file.role
    if card.revision == NOT_STATED and not any(file.sha256 for file in card.files):
        no_whole_file = {"aapr", "food", "good", "beer", "foodcom-reviews", "qqp", "mnli", "mnli-mismatched"}
        no_whole_file |= {"economic-news", "complaints", "news-aggregator", "news-aggregator-five"}
        assert card.name in no_whole_file  # of which none is stated either


def test_checksums_are_of_different_files() -> None:
    files = {file for card in CARDS.values() for file in card.files if file.sha256}
    assert len({file.sha256 for file in files}) == len(files) == 41


@pytest.mark.slow
def test_sizes_that_are_published_are_said(card: Card) -> None:
    assert all(file.rows is None or file.rows > 0 for file in card.files)
    if card in ATTRIB:  # in the paper's tables 1 and 7
        assert {"train", "values"} <= set(card.published)
    if card in (*GLUE, *ADDITIONAL):
        assert card.metric in ("accuracy", "matthews", "spearman", "f1")
    if card in ADDITIONAL:  # in table 3 of Houlsby et al. 2019
        assert set(card.published) == {"train", "validation", "test", "classes", "characters"}
        assert card.classes == card.published["classes"]
        assert card.published["validation"] == pytest.approx(card.published["train"] / 8, rel=0.01)
    if card.name.startswith("tid8-"):
        assert "were not at hand" in card.notes
    elif card.name not in {"aapr", "foodcom-reviews", "complaints", "popquorn-offensiveness"}:
        assert all(file.rows for file in card.files if not file.optional)
    for name, value in card.published.items():
        assert value >= 0, name
    train = card.published.get("train")
    assert train is None or train <= 1.01 * sum(file.rows or train for file in card.files)


@pytest.mark.slow
def test_roles_and_columns_are_unique(card: Card) -> None:
    roles = [file.role for file in card.files]
    assert len(set(roles)) == len(roles) > 0
    assert len(set(card.names())) == len(card.names())
    assert card.names() or card in TEXT_SETS
    assert not set(card.names()) & {*card.labels, "text", "text_pair"}
    assert not card.classes if card.task["kind"] in ("regression", "spans") else card.classes > 1
