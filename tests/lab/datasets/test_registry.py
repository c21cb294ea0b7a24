"""What every card of the registry says: source, version, licence, citation, sizes. Nothing is left out."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from attribune.errors import ConfigError
from attribune_lab.datasets import sets
from attribune_lab.datasets.card import NOT_STATED, Card, Folds, Shuffled
from attribune_lab.datasets.card_files import read_cards
from attribune_lab.datasets.sets import ADDITIONAL, ATTRIB, CARDS, GLUE, TEXT_SETS

CARD_FILES = Path(sets.__file__).with_name("cards")
COMMIT = re.compile(r"\bat [0-9a-f]{40}\b")


@pytest.fixture(params=CARDS)
def card(request: pytest.FixtureRequest) -> Card:
    return CARDS[request.param]


def test_names_and_titles_are_unique() -> None:
    cards = [*CARDS.values()]
    assert [text for text, times in Counter(card.title for card in cards).items() if times > 1] == []
    assert [card.name for card in cards] == list(CARDS)
    assert {id(card) for card in ATTRIB} <= {id(card) for card in cards}
    assert len(ATTRIB) == len({card.name for card in ATTRIB}) == 14


def test_every_card_that_is_written_is_registered() -> None:
    files = [tomllib.loads(path.read_text(encoding="utf-8")) for path in CARD_FILES.glob("*.toml")]
    assert {name for file in files for name in file["sets"]} == set(CARDS)
    shared = [name for file in files for name in file.get("shared", {})]
    tables = [table for file in files for table in (file, *file["sets"].values())]
    assert Counter(shared) == Counter({name for table in tables for name in table.get("like", ())})


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
    assert card.files[0].names[0] in card.obtain
    assert isinstance(card.split, Folds) == (card.name == "polmed")
    assert set(card.divergence) <= {"random", "majority", "all", "best subset", *card.names()}
    assert not card.divergence or set(card.names()) < set(card.divergence)
    assert not card.classes if card.task["kind"] in ("regression", "spans") else card.classes > 1


WINE = """
terms = "For teaching."
citation = "The {fair} 2024, Notes of the tasters"
[shared.fair]
words.fair = "wine fair"
files.notes = { names = ["{name}.csv"], rows = 200 }
attributes = ["taster", { kind = "multi_label", name = "grape" }]
[sets.wine]
like = ["fair"]
title = "Wine notes"
source = "The archive of the {fair}"
obtain = "Get {file[notes]}."
folders = ["", "wine/"]
files.notes = { rows = 201 }
reader = "reviews.Reviews"
options = { lowest = 1, columns = { text = "note", rating = "points", taster = "taster" } }
split = { kind = "shuffled", share = 0.1 }
labels = ["points"]
task = { kind = "rating" }
classes = 5
metric = "accuracy"
preparation = "Nothing is left out."
"""


def test_a_card_is_what_its_file_and_its_shared_parts_and_the_set_say(tmp_path: Path) -> None:
    (tmp_path / "fair.toml").write_text(WINE, encoding="utf-8")
    ((wine,),) = read_cards(tmp_path).values()
    assert (wine.name, wine.source, wine.obtain) == ("wine", "The archive of the wine fair", "Get wine.csv.")
    assert wine.citation == "The wine fair 2024, Notes of the tasters"
    (file,) = wine.files
    assert (file.role, file.names, file.rows) == ("notes", ("wine.csv", "wine/wine.csv"), 201)
    assert wine.attributes == ({"kind": "categorical", "name": "taster"}, {"kind": "multi_label", "name": "grape"})
    assert (wine.revision, wine.licence, wine.recipe, wine.split) == (NOT_STATED, NOT_STATED, None, Shuffled(share=0.1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('metric = "', 'metrik = "', r"fair\.toml, wine: there is no key 'metrik': choose of name, title, "),
        ("rows = 201", "row = 201", r"wine, file notes: there is no key 'row': choose of role, names, rows"),
        ("share = 0.1", "part = 0.1", r"wine, split: there is no key 'part': choose of rows, share"),
        ("lowest = 1", "highest = 1", r"wine, options: there is no key 'highest': choose of lowest, columns"),
        ("classes = 5", "classes = 'five'", r"wine: classes: .*it is 'five'"),
        ('title = "Wine notes"', "", r"wine: title: this setting is required"),
        ("split = ", "# ", r"wine: there is no 'split', which the card needs or names"),
        ('"shuffled"', '"drawn"', r"wine: there is no 'drawn'"),
        ('["fair"]', '["market"]', r"wine: there is no 'market'"),
        ("{file[notes]}", "{file[rows]}", r"wine: there is no 'rows'"),
        ("reviews.Reviews", "reviews.Wine", r"wine: there is no reader 'reviews\.Wine': name a function or class"),
        ("reviews.Reviews", "reviews.beer", r"the reader reviews\.beer has no options, but lowest, columns are given"),
        ("[sets.wine]", "[sets.wine", r"fair\.toml cannot be read: .*line"),
    ],
)
def test_what_is_wrong_in_a_card_is_named_with_its_file(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in WINE
    (tmp_path / "fair.toml").write_text(WINE.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_cards(tmp_path)
