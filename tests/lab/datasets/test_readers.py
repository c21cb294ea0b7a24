"""Each published format: what its reader keeps, what it leaves out and what it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from published import (
    ROWS,
    beer_block,
    beer_review,
    book_review,
    csv_text,
    interaction,
    json_text,
    message,
    paper,
    quote,
    read_rows,
    recipe,
    shop_review,
    tang_line,
    text_of,
    write,
    write_source,
)

from attribune.errors import DataError
from attribune_lab.datasets.card import Given, Hashed
from attribune_lab.datasets.readers.reviews import ASPECTS
from attribune_lab.datasets.row_log import RowLog, whole_number, words
from attribune_lab.datasets.sets import CARDS

TANG_FILES = {
    "yelp-2013": "yelp-2013-seg-20-20.{}.ss",
    "yelp-2014": "yelp-2014-seg-20-20.{}.ss",
    "imdb": "imdb.{}.txt.ss",
}
MADE: dict[str, Callable[..., dict[str, Any]]] = {
    "polmed": message,
    "food": recipe,
    "foodcom-reviews": interaction,
    "good": book_review,
    "beer": beer_review,
    "critics": quote,
    "amazon-instruments": shop_review,
}
"""A row of sets with one table."""


def kept_of(name: str, folder: Path, *changes: dict[str, Any], **options: bool) -> tuple[list[dict[str, Any]], RowLog]:
    """Rows that a set with one table keeps of rows with these changes."""
    items = [MADE[name](**one) for one in changes]
    file = CARDS[name].files[0].names[0]
    write(folder / file, csv_text(items) if file.endswith(".csv") else json_text(items))
    rows, log = read_rows(name, folder, **options)
    assert log.read.total() == len(items) == len(rows) + log.left_out.total() + log.bad.total()
    return [row for _, row in rows], log


class TestEverySet:
    @pytest.mark.slow
    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("packed", ["", ".gz", ".bz2"])
    @pytest.mark.parametrize("name", CARDS)
    def test_the_published_files_are_read_plain_and_compressed(self, tmp_path: Path, name: str, packed: str) -> None:
        card = CARDS[name]
        rows, log = read_rows(name, write_source(tmp_path, name, packed=packed))
        assert len(rows) + log.left_out.total() == ROWS
        assert not log.bad
        described = chain.from_iterable(card.values.values())
        columns = [*card.texts, *card.labels, *card.names(), *described]
        kinds: dict[str, type] = dict.fromkeys(columns, str)
        kinds |= {str(spec["name"]): list if spec["kind"] == "multi_label" else str for spec in card.attributes}
        group = card.split.group if isinstance(card.split, Hashed) else None
        apart = {group} - {*card.texts}
        for part, row in rows:
            assert [name for name in row if name not in apart] == columns
            assert {name: type(value) for name, value in row.items() if name not in apart} == kinds
            assert row["text"]
            if isinstance(card.split, Hashed):
                assert part in ((None,) if card.split.test else (None, "test"))
                assert group is None or row[group]
            else:
                assert (part is None) == (not isinstance(card.split, Given))
        for label in card.labels:
            assert 2 <= len({row[label] for _, row in rows}) <= (card.classes or ROWS)

    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("name", CARDS)
    def test_each_file_is_found_by_each_of_its_names(self, tmp_path: Path, name: str) -> None:
        for file in CARDS[name].files:
            assert file.find(tmp_path) is None
            for number, place in enumerate(file.names):
                for packed in ("", ".gz"):
                    path = write(tmp_path / f"{file.role}{number}{packed}" / f"{place}{packed}", "")
                    assert file.find(tmp_path / f"{file.role}{number}{packed}") == path


class TestTang:
    def write(self, folder: Path, name: str, train: str, dev: str | None = None, test: str | None = None) -> None:
        """The three files; one line for the others."""
        for part, lines in (("train", train), ("dev", dev), ("test", test)):
            write(folder / TANG_FILES[name].format(part), tang_line("u", "p", 3, "text") if lines is None else lines)

    @pytest.mark.parametrize("name", TANG_FILES)
    def test_rows_come_part_by_part_without_sentence_marks(self, tmp_path: Path, name: str) -> None:
        first = tang_line("u1", "p1", 4, "good . <sssss> very\u00a0good ! <sssss>")
        last = "\r\n" + tang_line("u3", "p3", 2, "caf\u00e9 <sssss>").replace("\n", "\r\n")
        self.write(tmp_path, name, first + tang_line("u2", "p1", 1, "bad"), tang_line("u1", "p2", 5, "a\t\tb"), last)
        rows, log = read_rows(name, tmp_path)
        assert [(part, *row.values()) for part, row in rows] == [
            ("train", "good . very good !", "4", "u1", "p1"),
            ("train", "bad", "1", "u2", "p1"),
            ("validation", "a b", "5", "u1", "p2"),
            ("test", "caf\u00e9", "2", "u3", "p3"),
        ]
        assert log.read == {"train": 2, "validation": 1, "test": 1}

    @pytest.mark.parametrize(("name", "best"), [("yelp-2013", 5), ("yelp-2014", 5), ("imdb", 10)])
    def test_ratings_are_whole_numbers_from_one_to_the_best(self, tmp_path: Path, name: str, best: int) -> None:
        ratings = [str(rating) for rating in range(1, best + 1)]
        self.write(tmp_path, name, "".join(tang_line("u", "p", rating, "text") for rating in ratings))
        rows, _ = read_rows(name, tmp_path)
        assert [row["rating"] for part, row in rows if part == "train"] == ratings
        for rating in ("0", str(best + 1), "3.5", "nan", "five"):
            self.write(tmp_path, name, tang_line("u", "p", rating, "text"))
            with pytest.raises(DataError, match=rf"train\S*ss, line 1: the third field is not .*\('{rating}'\)"):
                read_rows(name, tmp_path)

    @pytest.mark.parametrize(
        ("line", "found"),
        [("u\t\tp\t\t3\n", 3), ("u\tp\t3\ttext\n", 1), ("u\t\t\t\t3\t\ttext\n", 3), ("u\t\tp\t\t3\t\t \n", 3)],
    )
    def test_a_line_with_other_fields_is_refused(self, tmp_path: Path, line: str, found: int) -> None:
        self.write(tmp_path, "imdb", tang_line("u", "p", 3, "text") + line)
        with pytest.raises(DataError, match=rf"imdb\.train\.txt\.ss, line 2: not the 4 .*\({found} of them\): get"):
            read_rows("imdb", tmp_path)


class TestColdStart:
    TRAIN = ("u1 p1 a", "u2 p1 b", "u1 p1 c", "u1 p2 d", "u1 p1 e", "u2 p2 f")

    def read(self, folder: Path, *pairs: str, skip_bad: bool = False) -> tuple[str, RowLog]:
        """The texts of the training rows, of one letter each, of a list of pairs; the other parts are whole."""
        lines = "".join(tang_line(*line.split()[:2], 3, line.split()[2]) for line in self.TRAIN)
        for part, content in {"train": lines, "dev": tang_line("u9", "p9", 1, "v"), "test": lines}.items():
            write(folder / TANG_FILES["imdb"].format(part), content)
        write(folder / "imdb" / "train_zero5.txt.ids.gz", "".join(pair.replace(" ", "\t\t") + "\n" for pair in pairs))
        rows, log = read_rows("imdb-cold-50", folder, skip_bad=skip_bad)
        assert [row["text"] for part, row in rows if part != "train"] == [*"vabcdef"]
        return "".join(row["text"] for part, row in rows if part == "train"), log

    def test_listed_pairs_train_in_the_order_of_the_file(self, tmp_path: Path) -> None:
        texts, log = self.read(tmp_path, "u2 p2", "u1 p2", "u2 p1")
        assert texts == "bdf"
        assert log.left_out == {"training rows that are not in the list": 3}
        assert +log.remarks == {}
        assert log.read == {"pairs": 3, "train": 6, "validation": 1, "test": 6}

    @pytest.mark.parametrize(("times", "expected"), [(1, "a"), (2, "ac"), (3, "ace")])
    def test_a_pair_listed_k_times_takes_its_first_k_rows(self, tmp_path: Path, times: int, expected: str) -> None:
        texts, log = self.read(tmp_path, *["u1 p1"] * times)
        assert texts == expected
        # As many rows could be others than those of the paper; with three there is no choice.
        assert log.remarks.total() == (times if times < 3 else 0)

    def test_a_listed_pair_without_a_row_is_refused(self, tmp_path: Path) -> None:
        pairs = ("u2 p2", "u2 p2", "u7 p1")
        message = (
            r"train_zero5\.txt\.ids\.gz: a listed pair has no training row \(user 'u2', product 'p2'; 2 such pairs\)"
        )
        with pytest.raises(DataError, match=message):
            self.read(tmp_path, *pairs)
        texts, log = self.read(tmp_path, *pairs, skip_bad=True)
        assert texts == "f"
        assert log.bad == {"a listed pair has no training row": 2}

    def test_a_list_with_other_fields_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"ids\.gz, line 2: not a user and a product \(3 fields\): get the list"):
            self.read(tmp_path, "u1 p1", "u1 p1 3")

    @pytest.mark.parametrize("percent", [20, 50, 80])
    @pytest.mark.parametrize("base", ["yelp-2013", "imdb"])
    def test_each_level_reads_its_own_list(self, base: str, percent: int) -> None:
        card = CARDS[f"{base}-cold-{percent}"]
        folder = base.replace("yelp-", "yelp")
        assert card.files[:3] == CARDS[base].files
        assert card.files[3].names[0] == f"{folder}/train_zero{percent // 10}.txt.ids"


class TestAapr:
    def read(self, folder: Path, *items: dict[str, Any]) -> tuple[list[dict[str, Any]], RowLog]:
        for number in range(4):
            papers = {f"{number}.{place}": item for place, item in enumerate(items) if place % 4 == number}
            write(folder / f"data{number + 1}", json.dumps(papers))
        rows, log = read_rows("aapr", folder)
        return [row for _, row in rows], log

    def test_only_papers_with_a_venue_beyond_the_archive_are_accepted(self, tmp_path: Path) -> None:
        venues = {"CoRR": "no", "No": "no", "ACL": "yes", "NoDaLiDa": "yes"}
        rows, _ = self.read(tmp_path, *(paper(venue=venue) for venue in venues))
        assert [row["accepted"] for row in rows] == [*venues.values()]

    def test_text_is_title_and_abstract_and_attributes_are_lists(self, tmp_path: Path) -> None:
        one = {"authors": "Ann  Lee, Bo Chu,Ann Lee", "category": "q-bio.PE, cs.DS"}
        two = {"authors": ["Ann Lee", "Chu, Bo"], "category": "cs.CL"}
        items = paper(title=" A title ", abstract="An\nabstract\n", **one), paper(title="", **two)
        assert [tuple(row.values()) for row in self.read(tmp_path, *items)[0]] == [
            ("A title\nAn\nabstract", "yes", ["Ann Lee", "Bo Chu"], ["q-bio.PE", "cs.DS"]),
            ("We drink it.", "yes", ["Ann Lee", "Chu, Bo"], ["cs.CL"]),
        ]

    @pytest.mark.parametrize("field", ["authors", "author", "author_id"])
    def test_the_authors_field_has_any_of_three_names(self, tmp_path: Path, field: str) -> None:
        item = {field if key == "authors" else key: value for key, value in paper().items()}
        assert [row["author"] for row in self.read(tmp_path, item)[0]] == [["Ann Lee", "Bo Chu"]]

    @pytest.mark.parametrize("field", ["abstract", "category", "venue", "authors"])
    def test_papers_that_lack_something_are_left_out(self, tmp_path: Path, field: str) -> None:
        without = {key: value for key, value in paper().items() if key != field}
        rows, log = self.read(tmp_path, paper(), without, *(paper(**{field: empty}) for empty in (None, "", " ")))
        assert len(rows) == 1
        assert log.left_out == {f"papers without {field}": 4}

    def test_the_same_paper_in_two_files_is_refused(self, tmp_path: Path) -> None:
        for number in range(1, 5):
            write(tmp_path / f"data{number}", "{}" if number % 2 else json.dumps({"1801 1": paper(), number: paper()}))
        message = r"data4, paper 1801 1: the same paper stands twice \('1801 1', first in .*data2"
        with pytest.raises(DataError, match=message):
            read_rows("aapr", tmp_path)
        assert len(read_rows("aapr", tmp_path, skip_bad=True)[0]) == 3


LEFT_OUT: list[tuple[str, dict[str, Any], str]] = [
    ("foodcom-reviews", {"rating": 0}, "reviews without a rating (0)"),
    ("foodcom-reviews", {"review": " "}, "reviews without a text"),
    *(("beer", {f"review_{name}": 0.0}, "a rating of 0, which stands for none") for name in (*ASPECTS, "overall")),
    *(("beer", {"user_profileName": user}, "no user") for user in (None, "", " ")),
    ("critics", {"fresh": "none"}, "no verdict"),
    ("critics", {"fresh": ""}, "no verdict"),
    ("critics", {"quote": " "}, "no quote"),
    ("amazon-instruments", {"reviewText": ""}, "reviews without a text"),
]


@pytest.mark.parametrize(("name", "changes", "reason"), LEFT_OUT)
def test_rows_that_lack_something_are_left_out(tmp_path: Path, name: str, changes: dict[str, Any], reason: str) -> None:
    rows, log = kept_of(name, tmp_path, changes)
    assert (rows, log.left_out) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("name", "change", "least", "most"),
    [
        ("food", lambda size: {"id": size, "steps": [text_of(3), text_of(size - 5)]}, 10, 500),  # two are the name
        ("good", lambda size: {"review_id": size, "review_sentences": [[0, text_of(size)]]}, 32, 256),
        ("beer", lambda size: {"review_text": text_of(size)}, 32, 256),
    ],
)
def test_texts_that_are_too_short_or_too_long_are_left_out(
    tmp_path: Path, name: str, change: Callable[[int], dict[str, Any]], least: int, most: int
) -> None:
    rows, log = kept_of(name, tmp_path, *map(change, (least - 1, least, most, most + 1)))
    assert [words(row["text"]) for row in rows] == [least, most]
    assert log.left_out == {f"less than {least} or more than {most} words": 2}


BOOK = "is missing or of another kind .*_raw has"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("polmed", {"text": " "}, "no text or no message type: get the file again"),
    ("polmed", {"message": ""}, "no text or no message type: get the file again"),
    ("food", {"minutes": "soon"}, r"minutes is not a whole number \('soon'\)"),
    ("food", {"minutes": "7.5"}, "minutes is not a whole number"),
    ("food", {"tags": "easy"}, r"tags is not a list of texts \('easy'\)"),
    ("food", {"steps": "['mix'"}, "steps is not a list of texts"),
    ("food", {"ingredients": "[{[]: 1}]"}, "ingredients is not a list of texts"),
    ("food", {"ingredients": "[1, 2]"}, "ingredients is not a list of texts"),
    ("food", {"tags": "__import__('os')"}, "tags is not a list of texts"),
    ("food", {"id": 2, "steps": repr([text_of(12, "\ud800")])}, "half of a character pair"),
    ("food", {}, r"the same recipe stands twice \('1', first in .*RAW_recipes\.csv, line 2\)"),
    *(("foodcom-reviews", {"rating": x}, rf"rating is not a rating from 0 to 5 \('{x}'\)") for x in ("6", "-1", "4.5")),
    ("foodcom-reviews", {"rating": ""}, "rating is not a rating from 0 to 5"),
    ("good", {}, r"the same review stands twice \('.*', first in .*line 1\)"),
    ("good", {"has_spoiler": "true"}, f"has_spoiler {BOOK}"),
    ("good", {"has_spoiler": None}, f"has_spoiler {BOOK}"),
    ("good", {"rating": 6}, f"rating {BOOK}"),
    ("good", {"rating": [5]}, f"rating {BOOK}"),
    ("good", {"rating": 10**400}, f"rating {BOOK}"),
    ("good", {"user_id": ""}, f"user_id {BOOK}"),
    ("good", {"book_id": None}, f"book_id {BOOK}"),
    ("good", {"review_sentences": "a text"}, f"review_sentences {BOOK}"),
    ("good", {"review_sentences": [["a text"]]}, f"review_sentences {BOOK}"),
    ("good", {"review_sentences": [[0, 1]]}, f"review_sentences {BOOK}"),
    ("beer", {"review_taste": 5.5}, r"taste is not a rating \('5\.5'\)"),
    ("beer", {"review_aroma": 3.3}, "aroma is not a rating"),
    ("beer", {"review_overall": "nan"}, "overall is not a rating"),
    ("beer", {"review_palate": None}, "palate is not a rating"),
    ("beer", {"review_text": None}, "no review/text or no beer/beerId"),
    ("beer", {"beer_beerId": None}, "no review/text or no beer/beerId"),
    ("beer", {"review_text": text_of(40, "\udcff")}, "half of a character pair"),
    ("beer", {"user_profileName": "\ud83d"}, "half of a character pair"),
    ("critics", {"fresh": "ripe"}, r"the verdict is not fresh, rotten or none \('ripe'\)"),
    ("amazon-instruments", {"overall": 0.0}, r"overall is not a rating from 1 to 5 \('0\.0'\)"),
    ("amazon-instruments", {"overall": 4.5}, "overall is not a rating"),
    (
        "amazon-instruments",
        {},
        r"the same review stands twice \(\('A2IBPI20UZIR0U', '1384719342'\), first in .*line 2\)",
    ),
]


@pytest.mark.parametrize(("name", "changes", "reason"), REFUSED)
def test_a_broken_row_is_refused_with_its_place_or_counted(
    tmp_path: Path, name: str, changes: dict[str, Any], reason: str
) -> None:
    file = CARDS[name].files[0].names[0]
    line = {"food": 4}.get(name, 3 if ".csv" in file else 2)  # behind a header and a row, of two lines, or a row alone
    place = f"{file.removesuffix('.gz')}, line {line}"
    with pytest.raises(DataError, match=rf"{place}: {reason}.*, or leave such rows out with skip_bad"):
        kept_of(name, tmp_path, {}, changes)
    rows, log = kept_of(name, tmp_path, {}, changes, skip_bad=True)
    assert (len(rows), log.bad.total()) == (1, 1)


class TestTables:
    def test_political_messages_are_read_in_latin_1(self, tmp_path: Path) -> None:
        other = {"text": " Se\u00f1or\x92s ", "label": " P ", "source": "facebook", "audience": "", "bias": "neutral"}
        write(tmp_path / "political_social_media.csv", csv_text([message(), message(**other)]), encoding="latin-1")
        trey = "From: Trey Radel (Representative from Florida)"
        assert [tuple(row.values()) for _, row in read_rows("polmed", tmp_path)[0]] == [
            ("Read the bill", "policy", trey, "twitter", "national", "partisan"),
            ("Se\u00f1or\x92s", "policy", "P", "facebook", "", "neutral"),
        ]

    def test_minutes_of_recipes_are_rounded_down_to_tens_from_5_to_150(self, tmp_path: Path) -> None:
        minutes = [*range(200), 2**31 - 1]
        rows, log = kept_of("food", tmp_path, *({"id": number, "minutes": number} for number in minutes))
        tens = [str(ten) for ten in range(10, 150, 10) for _ in range(10)]
        assert [row["minutes"] for row in rows] == ["0"] * 5 + tens + ["150"]
        assert log.left_out == {"less than 5 or more than 150 minutes": 55}
        assert CARDS["food"].classes == 16

    def test_recipes_have_50_tags_at_most(self, tmp_path: Path) -> None:
        fits, many = ([f"t{place}" for place in range(number)] for number in (50, 51))
        rows, log = kept_of("food", tmp_path, {"tags": fits}, {"tags": many})
        assert [row["tag"] for row in rows] == [fits]
        assert log.left_out == {"more than 50 tags": 1}

    def test_recipes_are_name_and_steps_and_tags_that_say_the_duration_are_removed(self, tmp_path: Path) -> None:
        durations = ("15-minutes-or-less", "30-minutes-or-less", "60-minutes-or-less", "4-hours-or-less")
        tags = ["mexican", *durations, "1-day-or-more", "time-to-make", "easy", "easy", " "]
        steps = {"steps": [text_of(9), text_of(3)], "description": text_of(900)}
        (row,), _ = kept_of(
            "food", tmp_path, {"tags": tags, "ingredients": ["egg", "it's", "egg"], "contributor_id": 7, **steps}
        )
        assert row == {
            "text": f"winter squash\n{text_of(9)} {text_of(3)}",
            "minutes": "50",
            "user": "7",
            "ingredient": ["egg", "it's"],
            "tag": ["mexican", "easy"],
        }

    def test_reviews_of_recipes_are_rated_from_1_to_5(self, tmp_path: Path) -> None:
        rows, _ = kept_of("foodcom-reviews", tmp_path, *({"recipe_id": n, "rating": n} for n in range(1, 6)))
        assert [tuple(row.values()) for row in rows] == [
            ('Oh my, "good"!', stars, "60989", stars) for stars in ("1", "2", "3", "4", "5")
        ]

    def test_reviews_of_goods_are_rated_from_1_to_5(self, tmp_path: Path) -> None:
        rows, _ = kept_of("amazon-instruments", tmp_path, *({"asin": n, "overall": float(n)} for n in range(1, 6)))
        assert [tuple(row.values()) for row in rows] == [
            ("Not much to write.", stars, "A2IBPI20UZIR0U", stars) for stars in ("1", "2", "3", "4", "5")
        ]

    def test_quotes_may_have_no_critic(self, tmp_path: Path) -> None:
        rows, _ = kept_of("critics", tmp_path, {}, {"fresh": "rotten", "critic": ""})
        assert [tuple(row.values()) for row in rows] == [
            ("So ingenious.", "fresh", "Owen Gleiberman", "Toy Story", "Entertainment Weekly"),
            ("So ingenious.", "rotten", "", "Toy Story", "Entertainment Weekly"),
        ]

    def test_sentences_of_book_reviews_are_joined_and_spoilers_named(self, tmp_path: Path) -> None:
        sentences = [[0, f" {text_of(20)} "], [1, ""], [0, text_of(20)]]
        rows, _ = kept_of(
            "good",
            tmp_path,
            {"review_sentences": sentences, "rating": 0},
            {"review_id": "2", "has_spoiler": False, "user_id": "caf\u00e9\U0001f600"},
        )
        assert [tuple(row.values()) for row in rows] == [
            (f"{text_of(20)} {text_of(20)}", "yes", "8842281e", "18245960", "0"),
            (f"{text_of(20)} {text_of(20)}", "no", "caf\u00e9\U0001f600", "18245960", "5"),
        ]

    @pytest.mark.parametrize("identifier", [None, ["a"]])
    def test_odd_ids_of_book_reviews_are_no_crash(self, tmp_path: Path, identifier: Any) -> None:
        assert len(kept_of("good", tmp_path, {}, {"review_id": identifier})[0]) == 2


class TestBeer:
    @pytest.mark.parametrize("packed", ["", ".gz"])
    def test_both_formats_give_the_same_rows(self, tmp_path: Path, packed: str) -> None:
        changes: list[dict[str, Any]] = [
            {"review_text": f"A lot:\tof foam.  {text_of(40)}"},
            {"review_appearance": 5, "review_aroma": 1.0, "review_overall": 4.5, "beer_beerId": 48213},
            *({"review_taste": halves / 2} for halves in range(2, 11)),
            {"review_aroma": 0.0},
            {"review_text": text_of(31)},
        ]
        items = [beer_review(**one) for one in changes]
        write(tmp_path / "lines" / f"beeradvocate.json{packed}", json_text(items))
        write(tmp_path / "blocks" / f"beeradvocate.txt{packed}", "".join(map(beer_block, items)))
        rows, log = read_rows("beer", tmp_path / "lines")
        blocks, other = read_rows("beer", tmp_path / "blocks")
        assert rows == blocks
        assert log.read == other.read == {"reviews": len(items)}
        assert log.left_out == other.left_out
        assert log.left_out.total() == 2
        assert [tuple(row.values()) for _, row in rows[:2]] == [
            (f"A lot: of foam. {text_of(40)}", "2.5", "2", "1.5", "1.5", "stcules", "47986", "1.5"),
            (text_of(40), "5", "1", "1.5", "1.5", "stcules", "48213", "4.5"),
        ]
        assert list(rows[0][1])[1:5] == list(ASPECTS)
        assert [row["taste"] for _, row in rows[2:]] == ["1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5"]

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ("and so on\n", r"not 'key: value' \('and so on'\): get the file"),
            (beer_block(beer_review(review_taste=7)), r"taste is not a rating \('7'\)"),
        ],
    )
    def test_what_is_wrong_in_blocks_is_refused_with_its_line(self, tmp_path: Path, more: str, reason: str) -> None:
        write(tmp_path / "beeradvocate.txt", beer_block(beer_review()) + more + beer_block(beer_review()))
        with pytest.raises(DataError, match=rf"beeradvocate\.txt, line 14: {reason}"):
            read_rows("beer", tmp_path)


class TestStudEmo:
    def write(self, folder: Path, *judgements: tuple[str, str, str, str]) -> None:
        columns = ("text_id", "annotator_id", "valence", "arousal")
        write(folder / "text_data.csv", csv_text([{"text_id": 0, "text": "Good."}, {"text_id": 1, "text": " "}]))
        write(folder / "annotation_data.csv", csv_text([dict(zip(columns, one, strict=True)) for one in judgements]))

    def test_every_judgement_is_a_row(self, tmp_path: Path) -> None:
        self.write(tmp_path, ("0", "8.0", "2.0", "0.0"), ("1", "8.0", "2.0", "1.0"), ("0", "9", "-3", "3"))
        for name, first, second in (("studemo", "2", "-3"), ("studemo-arousal", "0", "3")):
            rows, log = read_rows(name, tmp_path)
            assert [tuple(row.values()) for _, row in rows] == [("Good.", first, "8"), ("Good.", second, "9")]
            assert log.left_out == {"no text": 1}

    @pytest.mark.parametrize(
        ("name", "judgement", "message"),
        [
            ("studemo", ("0", "8.0", "4.0", "0"), r"the valence is not a whole number from -3 to 3 \('4'\)"),
            ("studemo", ("0", "8.0", "0.5", "0"), r"the valence is not a whole number from -3 to 3 \('0.5'\)"),
            ("studemo", ("7", "8.0", "2.0", "0"), r"there is no text of this text_id \('7'\)"),
            *(
                ("studemo-arousal", ("0", "8.0", "2.0", arousal), "the arousal is not a whole number from 0 to 3")
                for arousal in ("-1.0", "4.0", "1.5")
            ),
        ],
    )
    def test_others_are_refused(
        self, name: str, judgement: tuple[str, str, str, str], message: str, tmp_path: Path
    ) -> None:
        self.write(tmp_path, judgement)
        with pytest.raises(DataError, match=f"line 2: {message}"):
            read_rows(name, tmp_path)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("one", 1),
        ("don't stop", 2),
        ("a state-of-the-art film!", 4),
        ("Wow... (really)", 7),
        ("see https://t.co/x?a=1, now", 3),
        ("caf\u00e9 \u4f60\u597d", 2),
        ("it\u2019s 4.5", 4),
    ],
)
def test_words_are_counted_with_their_marks(text: str, number: int) -> None:
    assert words(text) == number


def test_whole_numbers_are_read_however_they_are_written() -> None:
    written = [4, "4", "4.0", 1, 5, 0, 6, 4.5, "x", None, "inf", []]
    found = [whole_number(value, low=1, high=5) for value in written]
    assert found == [4, 4, 4, 1, 5, None, None, None, None, None, None, None]
