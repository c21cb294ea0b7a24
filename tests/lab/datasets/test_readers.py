"""Each published format: what its reader keeps, what it leaves out and what it changes."""

from __future__ import annotations

import json
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

from attribune.errors import ConfigError, DataError
from attribune_lab.datasets.card import Folds, Given, Hashed
from attribune_lab.datasets.readers.reviews import ASPECTS
from attribune_lab.datasets.row_log import whole_number, words
from attribune_lab.datasets.sets import ATTRIB, CARDS, find_card

TANG_FILES = {
    "yelp-2013": "yelp-2013-seg-20-20.{}.ss",
    "yelp-2014": "yelp-2014-seg-20-20.{}.ss",
    "imdb": "imdb.{}.txt.ss",
}


def kept(name: str, folder: Path, *, skip_bad: bool = False) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(name, folder, skip_bad=skip_bad)[0]]


def kept_of(name: str, folder: Path, items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Rows that a set with one table keeps of these, and how many it leaves out, by reason."""
    file = CARDS[name].files[0].names[0]
    write(folder / file, csv_text(items) if file.endswith(".csv") else json_text(items))
    rows, log = read_rows(name, folder)
    assert log.read.total() == len(items) == len(rows) + log.left_out.total()
    return [row for _, row in rows], dict(log.left_out)


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
        columns = ["text", *(["text_pair"] if card.pair else []), *card.labels, *card.names(), *described]
        kinds: dict[str, type] = dict.fromkeys(columns, str)
        kinds |= {str(spec["name"]): list if spec["kind"] == "multi_label" else str for spec in card.attributes}
        group = card.split.group if isinstance(card.split, Hashed) else None
        for part, row in rows:
            assert [name for name in row if name != group] == columns
            assert {name: type(value) for name, value in row.items() if name != group} == kinds
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

    @pytest.mark.parametrize("name", CARDS)
    def test_the_card_says_all_and_fits_itself(self, name: str) -> None:
        card = find_card(name)
        assert card.name == name
        texts = (card.title, card.source, card.obtain, card.terms, card.citation, card.preparation)
        assert all(text.strip() == text and len(text) > 2 for text in texts)
        assert card.files[0].names[0] in card.obtain
        assert set(card.divergence) <= {"random", "majority", "all", "best subset", *card.names()}
        if card.divergence:
            assert set(card.names()) < set(card.divergence)
        assert isinstance(card.split, Folds) == (name == "polmed")

    def test_the_benchmark_has_fourteen_sets(self) -> None:
        assert len(ATTRIB) == 14
        assert len({card.name for card in ATTRIB}) == 14

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(ConfigError, match=r"unknown data set 'polmet': choose one of .*did you mean 'polmed'\?"):
            find_card("polmet")


class TestTang:
    @pytest.mark.parametrize("name", TANG_FILES)
    def test_rows_come_part_by_part_without_sentence_marks(self, tmp_path: Path, name: str) -> None:
        lines = {
            "train": tang_line("u1", "p1", 4, "good . <sssss> very\u00a0good ! <sssss>")
            + tang_line("u2", "p1", 1, "bad"),
            "dev": tang_line("u1", "p2", 5, "a\t\tb"),
            "test": "\r\n" + tang_line("u3", "p3", 2, "caf\u00e9 <sssss>").replace("\n", "\r\n"),
        }
        for part, content in lines.items():
            write(tmp_path / TANG_FILES[name].format(part), content)
        rows, log = read_rows(name, tmp_path)
        assert [(part, *row.values()) for part, row in rows] == [
            ("train", "good . very good !", "4", "u1", "p1"),
            ("train", "bad", "1", "u2", "p1"),
            ("validation", "a b", "5", "u1", "p2"),
            ("test", "caf\u00e9", "2", "u3", "p3"),
        ]
        assert log.read == {"train": 2, "validation": 1, "test": 1}

    @pytest.mark.parametrize(
        ("name", "rating", "fits"),
        [
            *(("yelp-2013", rating, fits) for rating, fits in {"0": False, "1": True, "5": True, "6": False}.items()),
            *(("imdb", rating, fits) for rating, fits in {"0": False, "1": True, "10": True, "11": False}.items()),
            ("yelp-2014", "3.5", False),
            ("yelp-2014", "nan", False),
            ("yelp-2014", "five", False),
        ],
    )
    def test_ratings_are_whole_numbers_from_one_to_the_best(
        self, tmp_path: Path, name: str, rating: str, fits: bool
    ) -> None:
        for part in ("train", "dev", "test"):
            write(tmp_path / TANG_FILES[name].format(part), tang_line("u", "p", rating, "text"))
        if fits:
            assert [row["rating"] for row in kept(name, tmp_path)] == [rating] * 3
        else:
            with pytest.raises(DataError, match=rf"train\S*ss, line 1: the third field is not .*\('{rating}'\)"):
                read_rows(name, tmp_path)

    @pytest.mark.parametrize(
        ("line", "found"),
        [("u\t\tp\t\t3\n", 3), ("u\tp\t3\ttext\n", 1), ("u\t\t\t\t3\t\ttext\n", 3), ("u\t\tp\t\t3\t\t \n", 3)],
    )
    def test_a_line_with_other_fields_is_refused(self, tmp_path: Path, line: str, found: int) -> None:
        for part in ("train", "dev", "test"):
            write(tmp_path / TANG_FILES["imdb"].format(part), tang_line("u", "p", 3, "text") + line)
        with pytest.raises(DataError, match=rf"imdb\.train\.txt\.ss, line 2: not the 4 .*\({found} of them\): get"):
            read_rows("imdb", tmp_path)


class TestColdStart:
    TRAIN = ("u1 p1 a", "u2 p1 b", "u1 p1 c", "u1 p2 d", "u1 p1 e", "u2 p2 f")

    def source(self, folder: Path, *pairs: str) -> Path:
        lines = "".join(tang_line(*line.split()[:2], 3, line.split()[2]) for line in self.TRAIN)
        for part, content in {"train": lines, "dev": tang_line("u9", "p9", 1, "v"), "test": lines}.items():
            write(folder / TANG_FILES["imdb"].format(part), content)
        write(folder / "imdb" / "train_zero5.txt.ids.gz", "".join(pair.replace(" ", "\t\t") + "\n" for pair in pairs))
        return folder

    def test_listed_pairs_train_in_the_order_of_the_file(self, tmp_path: Path) -> None:
        rows, log = read_rows("imdb-cold-50", self.source(tmp_path, "u2 p2", "u1 p2", "u2 p1"))
        assert [row["text"] for part, row in rows if part == "train"] == ["b", "d", "f"]
        assert [row["text"] for part, row in rows if part != "train"] == ["v", *"abcdef"]
        assert log.left_out == {"training rows that are not in the list": 3}
        assert +log.remarks == {}
        assert log.read == {"pairs": 3, "train": 6, "validation": 1, "test": 6}

    @pytest.mark.parametrize(("times", "texts"), [(1, "a"), (2, "ac"), (3, "ace")])
    def test_a_pair_listed_k_times_takes_its_first_k_rows(self, tmp_path: Path, times: int, texts: str) -> None:
        rows, log = read_rows("imdb-cold-50", self.source(tmp_path, *["u1 p1"] * times))
        assert [row["text"] for part, row in rows if part == "train"] == list(texts)
        # As many rows could be others than those of the paper; with three there is no choice.
        assert log.remarks.total() == (times if times < 3 else 0)

    def test_a_listed_pair_without_a_row_is_refused(self, tmp_path: Path) -> None:
        folder = self.source(tmp_path, "u2 p2", "u2 p2", "u7 p1")
        message = (
            r"train_zero5\.txt\.ids\.gz: a listed pair has no training row \(user 'u2', product 'p2'; 2 such pairs\)"
        )
        with pytest.raises(DataError, match=message):
            read_rows("imdb-cold-50", folder)
        rows, log = read_rows("imdb-cold-50", folder, skip_bad=True)
        assert [row["text"] for part, row in rows if part == "train"] == ["f"]
        assert log.bad == {"a listed pair has no training row": 2}

    def test_a_list_with_other_fields_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"ids\.gz, line 2: not a user and a product \(3 fields\): get the list"):
            read_rows("imdb-cold-50", self.source(tmp_path, "u1 p1", "u1 p1 3"))

    @pytest.mark.parametrize("percent", [20, 50, 80])
    @pytest.mark.parametrize("base", ["yelp-2013", "imdb"])
    def test_each_level_reads_its_own_list(self, base: str, percent: int) -> None:
        card = CARDS[f"{base}-cold-{percent}"]
        folder = base.replace("yelp-", "yelp")
        assert card.files[:3] == CARDS[base].files
        assert card.files[3].names[0] == f"{folder}/train_zero{percent // 10}.txt.ids"


class TestAapr:
    def papers(self, folder: Path, *items: dict[str, Any]) -> Path:
        for number in range(4):
            papers = {f"{number}.{place}": item for place, item in enumerate(items) if place % 4 == number}
            write(folder / f"data{number + 1}", json.dumps(papers))
        return folder

    @pytest.mark.parametrize(("venue", "accepted"), [("CoRR", "no"), ("No", "no"), ("ACL", "yes"), ("NoDaLiDa", "yes")])
    def test_only_papers_with_a_venue_beyond_the_archive_are_accepted(
        self, tmp_path: Path, venue: str, accepted: str
    ) -> None:
        assert [row["accepted"] for row in kept("aapr", self.papers(tmp_path, paper(venue=venue)))] == [accepted]

    def test_text_is_title_and_abstract_and_attributes_are_lists(self, tmp_path: Path) -> None:
        items = (
            paper(
                title=" A title ",
                abstract="An\nabstract\n",
                authors="Ann  Lee, Bo Chu,Ann Lee",
                category="q-bio.PE, cs.DS",
            ),
            paper(title="", authors=["Ann Lee", "Chu, Bo"], category="cs.CL"),
        )
        assert [tuple(row.values()) for row in kept("aapr", self.papers(tmp_path, *items))] == [
            ("A title\nAn\nabstract", "yes", ["Ann Lee", "Bo Chu"], ["q-bio.PE", "cs.DS"]),
            ("We drink it.", "yes", ["Ann Lee", "Chu, Bo"], ["cs.CL"]),
        ]

    @pytest.mark.parametrize("field", ["authors", "author", "author_id"])
    def test_the_authors_field_has_any_of_three_names(self, tmp_path: Path, field: str) -> None:
        item = {field if key == "authors" else key: value for key, value in paper().items()}
        assert [row["author"] for row in kept("aapr", self.papers(tmp_path, item))] == [["Ann Lee", "Bo Chu"]]

    @pytest.mark.parametrize("empty", [None, "", " ", "absent"])
    @pytest.mark.parametrize("field", ["abstract", "category", "venue", "authors"])
    def test_papers_that_lack_something_are_left_out(self, tmp_path: Path, field: str, empty: str | None) -> None:
        bare = paper(**{field: empty})
        if empty == "absent":
            del bare[field]
        rows, log = read_rows("aapr", self.papers(tmp_path, paper(), bare))
        assert len(rows) == 1
        assert log.left_out == {f"papers without {field}": 1}

    def test_the_same_paper_in_two_files_is_refused(self, tmp_path: Path) -> None:
        self.papers(tmp_path)
        for number in (2, 4):
            write(tmp_path / f"data{number}", json.dumps({"1801 1": paper(), f"{number} 1": paper()}))
        with pytest.raises(
            DataError, match=r"data4, paper 1801 1: the same paper stands twice \('1801 1', first in .*data2"
        ):
            read_rows("aapr", tmp_path)
        assert len(kept("aapr", tmp_path, skip_bad=True)) == 3


class TestPolMed:
    def test_columns_get_their_names_and_latin_1_is_read(self, tmp_path: Path) -> None:
        items = [
            message(),
            message(text=" Se\u00f1or\x92s ", label=" P ", source="facebook", audience="", bias="neutral"),
        ]
        write(tmp_path / "political_social_media.csv", csv_text(items), encoding="latin-1")
        assert [tuple(row.values()) for row in kept("polmed", tmp_path)] == [
            (
                "Read the bill",
                "policy",
                "From: Trey Radel (Representative from Florida)",
                "twitter",
                "national",
                "partisan",
            ),
            ("Se\u00f1or\x92s", "policy", "P", "facebook", "", "neutral"),
        ]

    @pytest.mark.parametrize("changes", [{"text": " "}, {"message": ""}])
    def test_a_row_without_text_or_class_is_refused(self, tmp_path: Path, changes: dict[str, str]) -> None:
        write(tmp_path / "political_social_media.csv", csv_text([message(), message(**changes)]))
        with pytest.raises(DataError, match=r"media\.csv, line 3: no text or no message type: get the file again, or"):
            read_rows("polmed", tmp_path)


class TestFood:
    @pytest.mark.parametrize(
        ("minutes", "label"),
        {
            0: None,
            4: None,
            5: "0",
            9: "0",
            10: "10",
            19: "10",
            149: "140",
            150: "150",
            151: None,
            2**31 - 1: None,
        }.items(),
    )
    def test_minutes_are_rounded_down_to_tens_from_5_to_150(
        self, tmp_path: Path, minutes: int, label: str | None
    ) -> None:
        rows, left_out = kept_of("food", tmp_path, [recipe(minutes=minutes)])
        assert [row["minutes"] for row in rows] == ([] if label is None else [label])
        assert left_out == ({} if label else {"less than 5 or more than 150 minutes": 1})

    def test_there_are_sixteen_classes(self, tmp_path: Path) -> None:
        rows, _ = kept_of("food", tmp_path, [recipe(id=minutes, minutes=minutes) for minutes in range(200)])
        assert {row["minutes"] for row in rows} == {str(tens) for tens in range(0, 160, 10)}
        assert CARDS["food"].classes == 16

    @pytest.mark.parametrize(("size", "fits"), [(9, False), (10, True), (500, True), (501, False)])
    def test_texts_have_10_to_500_words_in_name_and_steps(self, tmp_path: Path, size: int, fits: bool) -> None:
        steps = [text_of(3), text_of(size - 5)]  # two words are the name
        rows, left_out = kept_of("food", tmp_path, [recipe(steps=steps, description=text_of(100))])
        assert (len(rows), sum(left_out.values())) == (int(fits), int(not fits))
        if fits:
            assert rows[0]["text"] == f"winter squash\n{steps[0]} {steps[1]}"

    @pytest.mark.parametrize(("number", "fits"), [(50, True), (51, False)])
    def test_recipes_have_50_tags_at_most(self, tmp_path: Path, number: int, fits: bool) -> None:
        tags = [f"t{place}" for place in range(number)]
        rows, left_out = kept_of("food", tmp_path, [recipe(tags=tags)])
        assert [row["tag"] for row in rows] == ([tags] if fits else [])
        assert left_out == ({} if fits else {"more than 50 tags": 1})

    def test_tags_that_say_the_duration_are_removed(self, tmp_path: Path) -> None:
        durations = [
            "15-minutes-or-less",
            "30-minutes-or-less",
            "60-minutes-or-less",
            "4-hours-or-less",
            "1-day-or-more",
        ]
        tags = ["mexican", *durations, "time-to-make", "easy", "easy", " "]
        rows, _ = kept_of("food", tmp_path, [recipe(tags=tags, ingredients=["egg", "it's", "egg"], contributor_id=7)])
        assert [(row["user"], row["ingredient"], row["tag"]) for row in rows] == [
            ("7", ["egg", "it's"], ["mexican", "easy"])
        ]

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"minutes": "soon"}, r"minutes is not a whole number \('soon'\)"),
            ({"minutes": "7.5"}, "minutes is not a whole number"),
            ({"tags": "easy"}, r"tags is not a list of texts \('easy'\)"),
            ({"steps": "['mix'"}, "steps is not a list of texts"),
            ({"ingredients": "[{[]: 1}]"}, "ingredients is not a list of texts"),
            ({"ingredients": "[1, 2]"}, "ingredients is not a list of texts"),
            ({"tags": "__import__('os')"}, "tags is not a list of texts"),
            ({"steps": repr([text_of(12, "\ud800")])}, "half of a character pair"),
            ({"id": 1}, r"the same recipe stands twice \('1', first in .*RAW_recipes\.csv, line 2\)"),
        ],
    )
    def test_broken_rows_are_refused_or_counted(self, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
        items = [recipe(description="one line"), recipe(**({"id": 2} | changes)), recipe(id=3)]
        write(tmp_path / "RAW_recipes.csv", csv_text(items))
        with pytest.raises(
            DataError, match=rf"RAW_recipes\.csv, line 3: {reason}.*: .*, or leave such rows out with skip_bad"
        ):
            read_rows("food", tmp_path)
        rows, log = read_rows("food", tmp_path, skip_bad=True)
        assert (len(rows), log.bad.total(), log.read) == (2, 1, {"recipes": 3})


class TestReviewsOfRecipes:
    def test_unrated_and_empty_reviews_are_left_out(self, tmp_path: Path) -> None:
        items = [interaction(recipe_id=rating, rating=rating) for rating in range(6)]
        rows, left_out = kept_of("foodcom-reviews", tmp_path, [*items, interaction(recipe_id=9, review=" ")])
        assert [row["rating"] for row in rows] == list("12345")
        assert left_out == {"reviews without a rating (0)": 1, "reviews without a text": 1}
        assert tuple(rows[4].values()) == ('Oh my, "good"!', "5", "60989", "5")

    @pytest.mark.parametrize("rating", ["6", "-1", "4.5", ""])
    def test_other_ratings_are_refused(self, tmp_path: Path, rating: str) -> None:
        with pytest.raises(
            DataError, match=rf"csv, line 2: rating is not a rating from 0 to 5{f' .{rating!r}.' if rating else ''}"
        ):
            kept_of("foodcom-reviews", tmp_path, [interaction(rating=rating)])


class TestGoodreads:
    def test_sentences_are_joined_and_spoilers_named(self, tmp_path: Path) -> None:
        sentences = [[0, f" {text_of(20)} "], [1, ""], [0, text_of(20)]]
        items = [
            book_review(review_sentences=sentences, rating=0),
            book_review(review_id="2", has_spoiler=False, user_id="caf\u00e9\U0001f600"),
        ]
        write(tmp_path / "goodreads_reviews_spoiler.json.gz", json_text(items))
        assert [tuple(row.values()) for row in kept("good", tmp_path)] == [
            (f"{text_of(20)} {text_of(20)}", "yes", "8842281e", "18245960", "0"),
            (f"{text_of(20)} {text_of(20)}", "no", "caf\u00e9\U0001f600", "18245960", "5"),
        ]

    @pytest.mark.parametrize(("size", "fits"), [(31, False), (32, True), (256, True), (257, False)])
    def test_reviews_have_32_to_256_words(self, tmp_path: Path, size: int, fits: bool) -> None:
        rows, left_out = kept_of("good", tmp_path, [book_review(review_sentences=[[0, text_of(size)]])])
        assert len(rows) == int(fits)
        assert left_out == ({} if fits else {"less than 32 or more than 256 words": 1})

    @pytest.mark.parametrize(
        "changes",
        [
            {"has_spoiler": "true"},
            {"has_spoiler": None},
            {"rating": 6},
            {"rating": [5]},
            {"rating": 10**400},
            {"user_id": ""},
            {"book_id": None},
            {"review_sentences": "a text"},
            {"review_sentences": [["a text"]]},
            {"review_sentences": [[0, 1]]},
        ],
    )
    def test_fields_of_another_kind_are_refused(self, tmp_path: Path, changes: dict[str, Any]) -> None:
        (name,) = changes
        with pytest.raises(DataError, match=rf"spoiler\.json, line 2: {name} is missing or of another kind .*_raw has"):
            kept_of("good", tmp_path, [book_review(), book_review(**changes)])

    @pytest.mark.parametrize("identifier", [None, ["a"]])
    def test_odd_ids_are_no_crash(self, tmp_path: Path, identifier: Any) -> None:
        items = [book_review(), book_review(review_id=identifier)]
        assert len(kept_of("good", tmp_path, items)[0]) == 2


class TestBeer:
    def both(self, folder: Path, items: list[dict[str, Any]], packed: str = "") -> list[dict[str, Any]]:
        """What the reader makes of the reviews, which must be the same for both formats."""
        write(folder / "lines" / f"beeradvocate.json{packed}", json_text(items))
        write(folder / "blocks" / f"beeradvocate.txt{packed}", "".join(map(beer_block, items)))
        lines, log = read_rows("beer", folder / "lines")
        blocks, other = read_rows("beer", folder / "blocks")
        assert lines == blocks
        assert log.read == other.read == {"reviews": len(items)}
        assert log.left_out == other.left_out
        return [row for _, row in lines]

    @pytest.mark.parametrize("packed", ["", ".gz"])
    def test_both_formats_give_the_same_rows(self, tmp_path: Path, packed: str) -> None:
        items = [
            beer_review(review_text=f"A lot:\tof foam.  {text_of(40)}"),
            beer_review(review_appearance=5, review_aroma=1.0, review_overall=4.5, beer_beerId=48213),
        ]
        rows = self.both(tmp_path, items, packed)
        assert [tuple(row.values()) for row in rows] == [
            (f"A lot: of foam. {text_of(40)}", "2.5", "2", "1.5", "1.5", "stcules", "47986", "1.5"),
            (text_of(40), "5", "1", "1.5", "1.5", "stcules", "48213", "4.5"),
        ]
        assert list(rows[0])[1:5] == list(ASPECTS)

    @pytest.mark.parametrize(("size", "fits"), [(31, False), (32, True), (256, True), (257, False)])
    def test_reviews_have_32_to_256_words(self, tmp_path: Path, size: int, fits: bool) -> None:
        assert len(self.both(tmp_path, [beer_review(review_text=text_of(size))])) == int(fits)

    @pytest.mark.parametrize("name", [*ASPECTS, "overall"])
    def test_a_rating_of_zero_is_left_out(self, tmp_path: Path, name: str) -> None:
        items = [beer_review(), beer_review(**{f"review_{name}": 0.0})]
        rows, left_out = kept_of("beer", tmp_path, items)
        assert len(rows) == 1
        assert left_out == {"a rating of 0, which stands for none": 1}
        assert len(self.both(tmp_path, items)) == 1

    @pytest.mark.parametrize("user", [None, "", " "])
    def test_a_review_without_a_user_is_left_out(self, tmp_path: Path, user: str | None) -> None:
        assert kept_of("beer", tmp_path, [beer_review(user_profileName=user)]) == ([], {"no user": 1})

    def test_there_are_nine_classes(self, tmp_path: Path) -> None:
        items = [beer_review(review_taste=halves / 2) for halves in range(2, 11)]
        assert [row["taste"] for row in self.both(tmp_path, items)] == [
            "1",
            "1.5",
            "2",
            "2.5",
            "3",
            "3.5",
            "4",
            "4.5",
            "5",
        ]

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"review_taste": 5.5}, r"taste is not a rating \('5\.5'\)"),
            ({"review_aroma": 3.3}, "aroma is not a rating"),
            ({"review_overall": "nan"}, "overall is not a rating"),
            ({"review_palate": None}, "palate is not a rating"),
            ({"review_text": None}, "no review/text or no beer/beerId"),
            ({"beer_beerId": None}, "no review/text or no beer/beerId"),
            ({"review_text": text_of(40, "\udcff")}, "half of a character pair"),
            ({"user_profileName": "\ud83d"}, "half of a character pair"),
        ],
    )
    def test_broken_reviews_are_refused(self, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(DataError, match=rf"beeradvocate\.json, line 2: {reason}"):
            kept_of("beer", tmp_path, [beer_review(), beer_review(**changes)])

    def test_a_line_that_is_no_field_is_refused(self, tmp_path: Path) -> None:
        write(tmp_path / "beeradvocate.txt", beer_block(beer_review()) + "and so on\n" + beer_block(beer_review()))
        with pytest.raises(
            DataError, match=r"beeradvocate\.txt, line 14: not 'key: value' \('and so on'\): get the file"
        ):
            read_rows("beer", tmp_path)


class TestCritics:
    def test_rows_without_verdict_or_quote_are_left_out(self, tmp_path: Path) -> None:
        items = [quote(), quote(fresh="rotten", critic=""), quote(fresh="none"), quote(fresh=""), quote(quote=" ")]
        rows, left_out = kept_of("critics", tmp_path, items)
        assert [tuple(row.values()) for row in rows] == [
            ("So ingenious.", "fresh", "Owen Gleiberman", "Toy Story", "Entertainment Weekly"),
            ("So ingenious.", "rotten", "", "Toy Story", "Entertainment Weekly"),
        ]
        assert left_out == {"no verdict": 2, "no quote": 1}

    def test_another_verdict_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"line 2: the verdict is not fresh, rotten or none \('ripe'\)"):
            kept_of("critics", tmp_path, [quote(fresh="ripe")])


class TestStudEmo:
    def write(self, folder: Path, judgements: list[dict[str, Any]]) -> None:
        texts = [{"text_id": 0, "text": "Good."}, {"text_id": 1, "text": " "}]
        write(folder / "text_data.csv", csv_text(texts))
        write(folder / "annotation_data.csv", csv_text(judgements))

    def test_every_judgement_is_a_row(self, tmp_path: Path) -> None:
        judged = [
            {"text_id": "0", "annotator_id": "8.0", "valence": "2.0", "arousal": "0.0"},
            {"text_id": "1", "annotator_id": "8.0", "valence": "2.0", "arousal": "1.0"},
            {"text_id": "0", "annotator_id": "9", "valence": "-3", "arousal": "3"},
        ]
        self.write(tmp_path, judged)
        for name, expected in {"studemo": ("2", "-3"), "studemo-arousal": ("0", "3")}.items():
            rows, log = read_rows(name, tmp_path)
            assert [tuple(row.values()) for _, row in rows] == [
                ("Good.", expected[0], "8"),
                ("Good.", expected[1], "9"),
            ]
            assert log.left_out == {"no text": 1}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"valence": "4.0"}, r"line 2: the valence is not a whole number from -3 to 3 \('4'\)"),
            ({"valence": "0.5"}, r"line 2: the valence is not a whole number from -3 to 3 \('0.5'\)"),
            ({"text_id": "7"}, r"line 2: there is no text of this text_id \('7'\)"),
        ],
    )
    def test_others_are_refused(self, change: dict[str, str], message: str, tmp_path: Path) -> None:
        self.write(tmp_path, [{"text_id": "0", "annotator_id": "8.0", "valence": "2.0"} | change])
        with pytest.raises(DataError, match=message):
            read_rows("studemo", tmp_path)

    @pytest.mark.parametrize("arousal", ["-1.0", "4.0", "1.5"])
    def test_an_arousal_outside_its_scale_is_refused(self, arousal: str, tmp_path: Path) -> None:
        self.write(tmp_path, [{"text_id": "0", "annotator_id": "8.0", "valence": "2.0", "arousal": arousal}])
        with pytest.raises(DataError, match=r"line 2: the arousal is not a whole number from 0 to 3"):
            read_rows("studemo-arousal", tmp_path)


class TestAmazon:
    def test_ratings_are_whole_and_empty_reviews_left_out(self, tmp_path: Path) -> None:
        items = [
            *(shop_review(asin=str(stars), overall=float(stars)) for stars in range(1, 6)),
            shop_review(reviewText=""),
        ]
        rows, left_out = kept_of("amazon-instruments", tmp_path, items)
        assert [row["rating"] for row in rows] == list("12345")
        assert tuple(rows[0].values()) == ("Not much to write.", "1", "A2IBPI20UZIR0U", "1")
        assert left_out == {"reviews without a text": 1}

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"overall": 0.0}, r"overall is not a rating from 1 to 5 \('0\.0'\)"),
            ({"overall": 4.5}, "overall is not a rating"),
            ({}, r"the same review stands twice \(\('A2IBPI20UZIR0U', '1384719342'\), first in .*line 2\)"),
        ],
    )
    def test_broken_rows_are_refused(self, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(DataError, match=f"line 3: {reason}"):
            kept_of("amazon-instruments", tmp_path, [shop_review(), shop_review(**changes)])


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


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (4, 4),
        ("4", 4),
        ("4.0", 4),
        (1, 1),
        (5, 5),
        (0, None),
        (6, None),
        (4.5, None),
        ("x", None),
        (None, None),
        ("inf", None),
        ([], None),
    ],
)
def test_whole_numbers_are_read_however_they_are_written(value: Any, number: int | None) -> None:
    assert whole_number(value, low=1, high=5) == number
