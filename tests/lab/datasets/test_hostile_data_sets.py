"""Files that are not what a source publishes, folders in the way, and preparations that are broken off."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from published import (
    aspects,
    beer_review,
    csv_text,
    interaction,
    json_text,
    recipe,
    shop_review,
    tang_line,
    text_of,
    write,
    write_source,
)

from attribune.apps.cli import main
from attribune.core.job_folder import locked
from attribune.errors import ConfigError
from attribune_lab.datasets import preparation, prepared
from attribune_lab.datasets.card import Shuffled
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.prepared import PreparedSet, sha256_of
from attribune_lab.datasets.row_log import Row, RowLog, SplitName
from attribune_lab.datasets.sets import CARDS

pytestmark = pytest.mark.slow

Outcome = tuple[int, str, str]
Fails = Callable[..., str]


def words(name: str, folder: Path, *more: str, partial: bool = True) -> list[str]:
    """The command that prepares what is in the folder `source`."""
    command = ["data", "prepare", name, "--source", str(folder / "source"), "--output", str(folder / "out"), *more]
    return [*command, "--partial"] if partial else command


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*.*")}


def in_line(number: int, broken: str, lines: list[str]) -> str:
    """The lines, the one with this number replaced."""
    return "".join([*lines[: number - 1], broken, *lines[number:]])


REVIEWS = [json_text([beer_review(review_text=text_of(40, i), **aspects(i))]) for i in range(1300)]
SHOP = [shop_review(asin=i, overall=1 + i % 5, reviewText=f"Guitar {i}") for i in range(40)]
BAD_ROWS: dict[str, tuple[str, str, int, list[str]]] = {  # set, content, rows that remain, parts of the message
    "cut JSON": (
        "beer",
        in_line(1234, '{"review\\/text": "cut\n', REVIEWS),
        1299,
        ["line 1234: not JSON (", "write one whole object"],
    ),
    "a list": ("beer", in_line(7, "[1, 2]\n", REVIEWS[:40]), 39, ["line 7: not an object ('[1, 2]'): write one {...}"]),
    "two reviews of a recipe": (
        "foodcom-reviews",
        csv_text([interaction(user_id=i % 39, rating=1 + i % 5, review=f"Made it, {i}") for i in range(40)]),
        39,
        ["line 41: the same review stands twice (('0', '30081'), first in ", "remove one"],
    ),
    "too few fields": (
        "amazon-instruments",
        csv_text(SHOP) + "A2,4,ann\n",
        40,
        ["line 42 (row 41): 3 fields, but the header has 9; the row starts with 'A2,4,ann': add the fields"],
    ),
}


@pytest.mark.parametrize(("name", "content", "remain", "parts"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_broken_row_is_named_and_can_be_left_out(
    fails: Fails,
    attribune: Callable[..., Outcome],
    tmp_path: Path,
    name: str,
    content: str,
    remain: int,
    parts: list[str],
) -> None:
    path = write(tmp_path / "source" / CARDS[name].files[0].names[0], content)
    message = fails(*words(name, tmp_path))
    assert f"error: {path}, " in message
    assert message.endswith(", or leave such rows out with --skip-bad\n")
    for part in parts:
        assert part in message
    assert all(path.name.startswith(".") for path in (tmp_path / "out").iterdir())
    code, out, err = attribune(*words(name, tmp_path, "--skip-bad"))
    assert (code, out) == (0, f"{tmp_path / 'out'}\n")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert sum(part["rows"] for part in manifest["parts"].values()) == remain
    ((reason, bad),) = manifest["bad"].items()
    assert bad["rows"] == 1
    assert bad["first"].startswith(f"{path}, line ")
    assert f"broken and skipped, {reason}: 1, first in {path}, line " in err


def test_broken_rows_are_counted_by_reason(attribune: Callable[..., Outcome], tmp_path: Path) -> None:
    items = [*SHOP[:20], *SHOP[:20]]
    broken = [shop_review(asin=100 + i, overall=6 + i) for i in range(30)]
    content = csv_text([*items, *broken]) + "".join(f"A{i},{i}\n" for i in range(9)) + "B,1,2\n"
    path = write(tmp_path / "source" / "Musical_instruments_reviews.csv.gz", content)
    assert attribune(*words("amazon-instruments", tmp_path, "--skip-bad"))[0] == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["bad"] == {
        "the same review stands twice": {"rows": 20, "first": f"{path}, line 22"},
        "overall is not a rating from 1 to 5": {"rows": 30, "first": f"{path}, line 42"},
        "2 fields, but the header has 9": {"rows": 9, "first": f"{path}, line 72 (row 71)"},
        "3 fields, but the header has 9": {"rows": 1, "first": f"{path}, line 81 (row 80)"},
    }


def cut(content: bytes) -> bytes:
    return gzip.compress(content)[:-40]


AGAIN = "get the file again"
TAKE = "get it again, or take it as it is with --partial"
NO_ROWS = [f"the file has no rows: {AGAIN}"]
CUT = ["the compressed file is truncated or damaged (", "get it again"]
Damage = Callable[[bytes], bytes]


def as_(content: str) -> Damage:
    """Another file in place of the published one."""
    return lambda _: content.encode()


def with_(old: bytes, new: bytes) -> Damage:
    return lambda content: content.replace(old, new, 1)


def behind(more: bytes) -> Damage:
    return lambda content: content + more


def first_line(content: bytes) -> bytes:
    return content.splitlines(keepends=True)[0]


BOOKS, SHOP_FILE, YELP = "goodreads_reviews_spoiler.json", "Musical_instruments_reviews.csv", "yelp-2013-seg-20-20"
ORDER = tang_line("4", "u1", "p1", "rating, user, product")
WRONG_FILES: list[tuple[str, str, Damage, list[str]]] = [  # set, file, damage, parts of the message
    ("good", f"{BOOKS}.gz", cut, CUT),
    ("imdb", "imdb.dev.txt.ss.gz", cut, CUT),
    ("critics", "critics.csv.gz", cut, CUT),
    ("aapr", "data3.gz", cut, CUT),
    ("polmed", "political_social_media.csv.gz", bytes, ["truncated or damaged (Not a gzipped file", "get it again"]),
    (
        "yelp-2013",
        f"{YELP}.train.ss",
        as_(ORDER),
        ["1: the third field is not a rating from 1 to 5 ('p1')", "with the columns user, product, rating and text"],
    ),
    ("aapr", "data2", lambda content: content[:-9], ["data2: truncated, or not JSON (", "line 1 column", AGAIN]),
    ("aapr", "data2", as_("[]"), ["data2: a list, not an object of papers by id: get the file again"]),
    (
        "food",
        "RAW_recipes.csv",
        as_(csv_text([interaction()])),
        ["no column name, id, minutes, contributor_id, tags, steps, ingredients (it has: user_id, ", "get that one"],
    ),
    (
        "polmed",
        "political_social_media.csv",
        with_(b",bias,", b",slant,"),
        ["the file has no column bias (it has: ", "another file than the one that the source publishes; get that one"],
    ),
    (
        "amazon-instruments",
        SHOP_FILE,
        behind(b'"open'),
        ["row starting in line 62: a quote is opened and never closed: double the quotes"],
    ),
    ("imdb", "imdb.test.txt.ss", behind(b"caf\xe9"), ["line 21: byte e9 at", "so the file is not utf-8", AGAIN]),
    ("good", BOOKS, with_(b"book", b"b\xffok"), ["line 1: byte ff at", AGAIN]),
    ("aapr", "data4", with_(b"Idea", b"\x80dea"), ["line 1: byte 80 at", AGAIN]),
    ("food", "RAW_recipes.csv", with_(b"autumn", b"\0"), ["line 2: a NUL character, which no text holds", AGAIN]),
    ("imdb", "imdb.train.txt.ss", as_(""), NO_ROWS),
    ("imdb-cold-20", "imdb/train_zero2.txt.ids", as_("\n"), NO_ROWS),
    ("good", BOOKS, as_(""), NO_ROWS),
    ("beer", "beeradvocate.json", as_("\n\n"), NO_ROWS),
    ("aapr", "data1", as_("{}"), NO_ROWS),
    ("aapr", "data1", as_(""), ["data1: truncated, or not JSON", AGAIN]),
    ("critics", "critics.csv", as_(""), ["the file is empty: give a file with a header line and rows"]),
    ("critics", "critics.csv", first_line, ["the file has a header but no rows: give a file with rows"]),
]


@pytest.mark.parametrize(("name", "file", "damage", "parts"), WRONG_FILES)
def test_a_wrong_file_is_refused_with_its_name_and_a_cure(
    fails: Fails, tmp_path: Path, name: str, file: str, damage: Damage, parts: list[str]
) -> None:
    original = write_source(tmp_path / "source", name) / file.removesuffix(".gz")
    content = original.read_bytes()
    original.unlink()
    path = tmp_path / "source" / file
    path.write_bytes(damage(content))
    message = fails(*words(name, tmp_path))
    assert f"error: {path}" in message
    for part in parts:
        assert part in message
    assert "--encoding" not in message  # which this command does not have
    assert all(path.name.startswith(".") for path in (tmp_path / "out").iterdir())


@pytest.mark.parametrize("partial", [True, False])
def test_rows_that_are_all_left_out_are_counted(fails: Fails, tmp_path: Path, partial: bool) -> None:
    items = [recipe(id=i, minutes=600 if i % 3 else 2, steps=["mix"] if i % 2 else [text_of(20)]) for i in range(12)]
    write(tmp_path / "source" / "RAW_recipes.csv", csv_text(items))
    expected = {
        True: "food: no row is left (12 rows read; less than 5 or more than 150 minutes: 12): give the files",
        False: "RAW_recipes.csv: 12 of the 231,637 rows that the source publishes",
    }
    assert expected[partial] in fails(*words("food", tmp_path, partial=partial))


@pytest.mark.parametrize(
    ("name", "rows", "parts"),
    [
        ("polmed", 60, ["media.csv: 60 of the 5,000 rows that the source publishes", TAKE]),
        ("imdb-cold-50", 60, ["imdb.train.txt.ss: 20 of the 67,426 rows that the source publishes", TAKE]),
        ("polmed", 5001, ["media.csv: 5,001 rows, more than the 5,000", "this is another file; get it again"]),
    ],
)
def test_a_part_of_a_file_or_another_file_needs_the_flag(
    fails: Fails, tmp_path: Path, name: str, rows: int, parts: list[str]
) -> None:
    write_source(tmp_path / "source", name, rows)
    message = fails(*words(name, tmp_path, partial=False))
    for part in parts:
        assert part in message
    assert main(words(name, tmp_path)) == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["origin"]["partial"] is True


class TestFolders:
    def test_a_missing_folder_says_how_to_get_the_files(self, fails: Fails, tmp_path: Path) -> None:
        message = fails(*words("good", tmp_path))
        assert f"{tmp_path / 'source'}: there is no such folder: put the files of good there. Download" in message
        assert "goodreads_reviews_spoiler.json.gz" in message

    def test_missing_files_are_named_with_what_is_there(self, fails: Fails, tmp_path: Path) -> None:
        write_source(tmp_path / "source", "yelp-2013-cold-20")
        (tmp_path / "source" / "yelp-2013-seg-20-20.dev.ss").unlink()
        (tmp_path / "source" / "yelp2013" / "train_zero2.txt.ids").unlink()
        message = fails(*words("yelp-2013-cold-20", tmp_path))
        assert "source lacks yelp-2013-seg-20-20.dev.ss, yelp2013/train_zero2.txt.ids (it has: yelp-2013-seg" in message
        assert "Download dataset.7z" in message
        assert "Terms: " in message

    def test_an_empty_folder_is_said_to_be_empty(self, fails: Fails, tmp_path: Path) -> None:
        (tmp_path / "source").mkdir()
        assert "lacks critics.csv (it has: nothing). Get critics.csv" in fails(*words("critics", tmp_path))

    def test_an_output_that_is_a_file_is_refused(self, fails: Fails, tmp_path: Path) -> None:
        write_source(tmp_path / "source", "critics")
        (tmp_path / "out").write_text("mine")
        assert f"{tmp_path / 'out'} is a file: choose another output folder" in fails(*words("critics", tmp_path))
        assert (tmp_path / "out").read_text() == "mine"

    NONE = "manifest.json is damaged, or no manifest of a prepared data set"
    OTHER = "out is not empty and holds no prepared data set ({}): choose another output folder"

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({"notes.txt": "mine", "train.parquet": "mine"}, OTHER.format("notes.txt, train.parquet")),
            ({"train.parquet": "mine"}, OTHER.format("train.parquet")),
            ({"manifest.json": '{"start_url": "."}'}, NONE),
            ({"manifest.json": "{"}, NONE),
        ],
    )
    def test_an_output_that_holds_something_else_is_left_as_it_is(
        self, fails: Fails, tmp_path: Path, files: dict[str, str], message: str
    ) -> None:
        write_source(tmp_path / "source", "critics")
        for name, content in files.items():
            write(tmp_path / "out" / name, content)
        assert message in fails(*words("critics", tmp_path))
        assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == files

    def test_an_output_that_holds_another_set_is_left_as_it_is(
        self, fails: Fails, attribune: Callable[..., Outcome], tmp_path: Path
    ) -> None:
        write_source(write_source(tmp_path / "source", "critics"), "food")
        assert attribune(*words("critics", tmp_path))[0] == 0
        before = state(tmp_path / "out")
        message = fails(*words("food", tmp_path))
        assert "out holds critics, prepared from other files or with other settings: choose another folder" in message
        assert state(tmp_path / "out") == before


class TestOnce:
    @pytest.fixture
    def done(self, attribune: Callable[..., Outcome], tmp_path: Path) -> Path:
        write_source(tmp_path / "source", "critics")
        code, _, err = attribune(*words("critics", tmp_path))
        assert code == 0
        assert "\nprepared, rows: train 48, validation 6, test 6\n" in err
        return tmp_path / "out"

    def test_the_second_call_writes_nothing(
        self, attribune: Callable[..., Outcome], tmp_path: Path, done: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = state(done)
        monkeypatch.setattr(preparation, "open_writer", None)  # and reads nothing
        os.utime(tmp_path / "source" / "critics.csv")  # the content counts
        code, out, err = attribune(*words("critics", tmp_path))
        assert (code, out) == (0, f"{done}\n")
        assert "\nalready prepared, rows: train 48, validation 6, test 6\n" in err
        assert state(done) == before

    @pytest.mark.parametrize("more", [["--skip-bad"], []])
    def test_changed_files_and_settings_are_noticed(
        self, fails: Fails, tmp_path: Path, done: Path, more: list[str]
    ) -> None:
        if not more:  # one letter, the same size
            path = tmp_path / "source" / "critics.csv"
            path.write_text(path.read_text().replace("Film number 7", "Film number 8"))
        before = state(done)
        message = fails(*words("critics", tmp_path, *more))
        assert "out holds critics, prepared from other files or with other settings: choose another folder" in message
        assert state(done) == before


class BrokenOffError(Exception):
    """What breaks a preparation off."""


REVIEWED = CARDS["foodcom-reviews"]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> PreparedSet:
    """What comes of a source that nothing disturbs, which is beside it."""
    folder = tmp_path_factory.mktemp("prepared")
    return prepare(REVIEWED, source=write_source(folder / "source", REVIEWED.name, 6000), output=folder / "clean")


class TestInterruption:
    CARD = REVIEWED

    def breaking_reader(self, rows: int) -> Callable[..., Iterator[tuple[SplitName | None, Row]]]:
        def read(files: Any, log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
            for number, row in enumerate(self.CARD.read(files, log)):
                if number == rows:
                    raise BrokenOffError
                yield row

        return read

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("stage", ["first rows", "second batch", "parts", "checksum", "replace_file", "write_json"])
    def test_what_is_broken_off_is_done_anew(
        self, clean: PreparedSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
    ) -> None:
        def breaks(*given: Any, **_: Any) -> Any:
            if stage != "checksum" or given[0].suffix == ".parquet":
                raise BrokenOffError
            return sha256_of(*given)

        paths = {"source": clean.folder.with_name("source"), "output": tmp_path / "out"}
        card, places = self.CARD, {"parts": (Shuffled, "parts"), "checksum": (preparation, "sha256_of")}
        with monkeypatch.context() as patch:
            if stage in ("first rows", "second batch"):
                card = replace(card, read=self.breaking_reader(20 if stage == "first rows" else 5500))
            else:
                patch.setattr(*places.get(stage, (prepared, stage)), breaks)
            with pytest.raises(BrokenOffError):
                prepare(card, **paths)
        left = {path.name for path in (tmp_path / "out").iterdir()}
        assert "manifest.json" not in left
        assert {name for name in left if name.startswith(".")} <= {".unfinished", ".lock"}
        again = prepare(self.CARD, **paths)
        assert not again.reused
        assert again.manifest == clean.manifest
        assert len(again.parts()["train"]) == 4800

    def test_what_an_earlier_release_left_half_done_is_done_anew(self, tmp_path: Path) -> None:
        paths = {"source": write_source(tmp_path / "source", self.CARD.name), "output": tmp_path / "out"}
        for name in (".unfinished", "train.parquet", ".test.parquet.123.tmp"):
            write(tmp_path / "out" / name, "")
        assert not prepare(self.CARD, **paths).reused
        left = {path.name for path in (tmp_path / "out").iterdir()}
        assert left.isdisjoint({".unfinished", ".test.parquet.123.tmp"})
        (tmp_path / "out" / ".lock").unlink()  # nor had it a lock
        assert prepare(self.CARD, **paths).reused

    def test_two_at_once_do_not_mix(self, tmp_path: Path) -> None:
        paths = {"source": write_source(tmp_path / "source", self.CARD.name), "output": tmp_path / "out"}
        with (
            locked(tmp_path / "out" / ".lock"),
            pytest.raises(ConfigError, match=r"another process .*works in .*out: wait"),
        ):
            prepare(self.CARD, **paths)
        assert not prepare(self.CARD, **paths).reused
