"""Files are what they hold, whatever their names say; and what is guessed is said."""

# ruff: noqa: RUF001

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from read_files import read, write

from attribune.apps.cli import main
from attribune.data.file_options import FileOptions
from attribune.data.table_files import header_columns
from attribune.data.tables import TableFile, read_table, table_source_name
from attribune.errors import ConfigError, DataError
from attribune.tasks import Spans

FRAME = pd.DataFrame({"text": ["one", "two, 2", "three"], "user": ["u1", "u2", "u1"]})


def _zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.csv", FRAME.to_csv(index=False))


DISGUISED: dict[str, Callable[[Path], object]] = {
    "gz": lambda path: path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode())),
    "zip": _zipped,
    "xlsx": lambda path: FRAME.to_excel(path.with_suffix(".xlsx"), index=False),
    "parquet": lambda path: FRAME.to_parquet(path),
    "feather": lambda path: FRAME.to_feather(path),
    "lines": lambda path: FRAME.to_json(path, orient="records", lines=True),
    "list": lambda path: FRAME.to_json(path, orient="records", indent=1),
    "columns": lambda path: path.write_text(json.dumps(FRAME.to_dict("list"), indent=1)),
}


@pytest.mark.parametrize("kind", DISGUISED)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_first_bytes_decide_what_a_file_is(kind: str, name: str, tmp_path: Path) -> None:
    if name == "t.tsv" and kind in ("gz", "zip"):
        pytest.skip("what is inside has commas")
    path = tmp_path / name
    DISGUISED[kind](path)
    if not path.exists():
        path.with_suffix(".xlsx").rename(path)
    assert read_table(path).to_pandas().equals(FRAME)
    assert header_columns(path) in (None, list(FRAME))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.json", "t.parquet", "t.xlsx", "t.csv.gz"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<!DOCTYPE html>\n<html><body>404</body></html>\n", "is a page of HTML, not a table: download"),
        ("\ufeff\n <html>\n<table><tr><td>a</td></tr></table>\n", "is a page of HTML"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "pointer of Git LFS.*`git lfs pull`"),
        ("%PDF-1.7\n,\n", "a PDF document"),
    ],
)
def test_what_is_no_table_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, name, gzip.compress(content.encode()) if name.endswith(".gz") else content)


RECORDS = {"17": {"text": "a", "label": 0}, "18": {"text": "b", "label": 1}, "x": {"text": "c", "label": 0}}
ROWS = list(RECORDS.values())


@pytest.mark.parametrize(
    ("content", "columns", "rows"),
    [
        (RECORDS, ["id", "text", "label"], 3),
        ({"1": {"text": "a"}, "2": {"text": "b", "label": 1}}, ["id", "text", "label"], 2),  # a key is missing
        ({"p": {"id": 1, "t": "a"}, "q": {"id": 2, "t": "b"}, "r": {"id": 3, "t": "c"}}, ["key", "id", "t"], 3),
        ({"1": {"text": "a", "label": 0}}, ["id", "text", "label"], 1),
        ({"data": ROWS}, ["text", "label"], 3),
        ({"reviews": ROWS}, ["text", "label"], 3),
        ({"version": "1", "data": ROWS, "total": 3}, ["text", "label"], 3),
        ({"data": RECORDS}, ["id", "text", "label"], 3),
        ({"data": {"text": ["a", "b"], "label": [0, 1]}}, ["text", "label"], 2),
        # By columns, as pandas writes it:
        ({"text": {"0": "a", "1": "b", "2": "c"}, "label": {"0": 0, "1": 1, "2": 0}}, ["text", "label"], 3),
        ({"text": {"0": "a"}, "label": {"0": 0}, "user": {"0": "u"}}, ["text", "label", "user"], 1),
        ({"text": {"x": "a", "y": "b", "z": "c"}, "label": {"x": 0, "y": 1, "z": 0}}, ["text", "label"], 3),
        # A row:
        ({"text": "a", "entities": [{"start": 0}, {"start": 4}]}, ["text", "entities"], 1),
        ({"text": "a", "meta": {"user": "u"}}, ["text", "meta"], 1),
    ],
)
def test_an_object_may_hold_a_table(content: Any, columns: list[str], rows: int, tmp_path: Path) -> None:
    for indent in (None, 1):
        table = read(tmp_path, "t.json", json.dumps(content, indent=indent))
        assert (list(table), {len(column) for column in table.values()}) == (columns, {rows})


def test_several_lists_of_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"several lists of rows \('train', 'test'\): save the one"):
        read(tmp_path, "t.json", json.dumps({"train": ROWS, "test": ROWS}))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('text\tlabel\n"Hello" he said\tx\n', ['"Hello" he said']),
        ('text\tlabel\n"open\tx\nnext\ty\nthis"\tz\n', ['"open', "next", 'this"']),  # would be one row
        ('text\tlabel\n"a\tx\nb"\ty\n', ['"a', 'b"']),
        ('"text"\t"label"\n"a ""b"""\t"x"\n', ['a "b"']),
        ('text\tlabel\n"two\nlines"\tx\n', ["two\nlines"]),
        ('text\tlabel\n"a\ttab"\tx\nb\ty\n', ["a\ttab", "b"]),
        ('text\tlabel\nsay "x"\ty\n', ['say "x"']),
    ],
)
def test_quotes_of_files_with_tabs_are_found_to_be_plain_or_around_fields(
    content: str, texts: list[str], tmp_path: Path
) -> None:
    for name in ("t.tsv", "t.csv"):
        assert next(iter(read(tmp_path, name, content).values())) == texts


def test_columns_are_named_where_there_is_no_header(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "good film,b\nbad film,e\n")
    columns = {"text": ["good film", "bad film"], "label": ["b", "e"]}
    assert read_table(path, columns=list(columns)).to_dict() == columns
    assert read_table(TableFile(path, FileOptions(columns=["text", "label"])), rows=1)["label"] == ["b"]
    assert table_source_name(TableFile(path, FileOptions())) == str(path)
    FRAME.to_excel(tmp_path / "t.xlsx", index=False, header=False)
    assert list(read_table(tmp_path / "t.xlsx", columns=["a", "b"])["b"]) == ["u1", "u2", "u1"]
    FRAME.to_parquet(tmp_path / "t.parquet")
    write(tmp_path, "nameless.csv", "a,,b\n1,2,3\n")
    names = ["text", "label", "user"]
    for name, options, error, message in (
        ("t.csv", {"columns": names}, DataError, r"line 1 \(row 1\): 2 fields, but 3 columns are named"),
        ("t.csv", {"columns": ["text", "text"]}, ConfigError, "give each column of the file a name of its own"),
        ("t.xlsx", {"columns": ["a"]}, DataError, "2 columns, but 1 are named"),
        ("t.parquet", {"columns": ["a", "b"]}, ConfigError, "names its columns itself"),
        ("t.parquet", {"quoting": False}, ConfigError, "no quotes around fields"),
        ("nameless.csv", {}, DataError, "name the columns with columns="),
    ):
        with pytest.raises(error, match=message):
            read_table(tmp_path / name, **options)


ROW_1 = "if row 1 is data, name the columns with --columns"
NOTES: dict[str, tuple[str, str | bytes, str]] = {
    "semicolons": ("t.csv", "text;user\na;b\n", "CSV, ';', utf-8, header in row 1 (text, user)"),
    "encoding": (
        "t.csv",
        "text,user\nЗаряд держит долго и быстро,b\n".encode("cp1251"),
        "CSV, ',', cp1251 ('Заряд'), header in row 1 (text, user)",
    ),
    "quotes": (
        "t.tsv",
        'text\tuser\n"a" b\tc\n',
        "TSV, tabs, quotes as plain characters, utf-8, header in row 1 (text, user)",
    ),
    "no header": (
        "t.csv",
        "a film,b\nanother,e\na third,b\n",
        f"CSV, ',', utf-8, header in row 1 (a film, b); 'b' there is also a value of the column: {ROW_1}",
    ),
    "number": (
        "t.csv",
        "17,text\n18,other\n",
        f"CSV, ',', utf-8, header in row 1 (17, text); '17' there is a number: {ROW_1}",
    ),
    "Qualtrics": (
        "t.csv",
        'Q1,Q2\nWhat was it?,"How\nmany?"\n"{""ImportId"":""QID1""}","{""ImportId"":""QID2"",""a"":1}"\nfilms,3\nx,2',
        "CSV, ',', utf-8, an export of Qualtrics, of which row 4 is the first, below questions and ids, header in row "
        "1 (Q1, Q2)",
    ),
    "kind": ("t.csv", '{"a": 1}\n{"a": 2}\n', "JSON, utf-8"),
    "ids": ("t.json", json.dumps(RECORDS), "JSON, utf-8, rows by their ids ('17', ...), which are the column 'id'"),
    "name": ("t.json", json.dumps({"data": ROWS}), "JSON, utf-8, rows under 'data'"),
}


def test_the_questions_and_ids_of_qualtrics_are_no_rows(tmp_path: Path) -> None:
    name, content, _ = NOTES["Qualtrics"]
    path = write(tmp_path, name, content)
    assert read_table(path).to_dict() == {"Q1": ["films", "x"], "Q2": ["3", "2"]}
    pd.read_csv(path).to_excel(path.with_suffix(".xlsx"), index=False)
    assert read_table(path.with_suffix(".xlsx")).to_dict() == {"Q1": ["films", "x"], "Q2": ["3", "2"]}
    with pytest.raises(DataError, match="no rows"):
        read(tmp_path, name, str(content).split("films")[0])


@pytest.mark.parametrize("case", NOTES)
def test_what_was_guessed_is_said_once(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, content, note = NOTES[case]
    path = write(tmp_path, name, content)
    assert main(["check", str(path), "--test", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == f"{path} is read as {note}\n"
    assert "is read as" not in out
    assert main(["check", str(path), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("t.csv", b"text,user\na,b\n", ()),
        ("t.csv", "text,user\né,b\n".encode("utf-8-sig"), ()),
        ("t.tsv", b"text\tuser\na\tb\n", ()),
        ("t.jsonl", b'{"text": "a"}\n', ()),
        ("t.json", b'[{"text": "a"}]', ()),
        ("t.csv", b"text;user\na;b\n", ("--delimiter", ";")),
        ("t.csv", "text,user\né,b\n".encode("latin-1"), ("--encoding", "latin-1")),
        ("t.tsv", b'text\tuser\n"a" b\tc\n', ("--quoting", "none")),
        ("t.csv", b"a film,b\nanother,e\na third,b\n", ("--columns", "text", "label")),
    ],
)
def test_nothing_is_said_where_nothing_is_guessed(
    name: str, content: bytes, flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(write(tmp_path, name, content)), *flags]) == 0
    assert capsys.readouterr().err == ""


FOUND = [{"text": "the cat", "answer_start": 0}, {"text": "cat", "answer_start": 4}]
QAS = [
    {"id": "1", "question": "who sat", "answers": FOUND},
    {"id": "2", "question": "who ran", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "cat"}]},
]
FELL = [{"id": "3", "question": "what", "answers": [{"text": "it", "answer_start": 1}]}]
SQUAD = {
    "version": "v2.0",
    "data": [
        {"title": "Cats", "paragraphs": [{"context": "the cat sat", "qas": QAS}, {"context": "nothing", "qas": []}]},
        {"title": "Rain", "paragraphs": [{"context": " it fell", "qas": FELL}]},
    ],
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_squad_are_read_as_they_are_published(indent: int | None, packed: bool, tmp_path: Path) -> None:
    data = json.dumps(SQUAD, indent=indent).encode()
    table = read(tmp_path, f"dev-v2.0.json{'.gz' if packed else ''}", gzip.compress(data) if packed else data)
    assert table["question"] == ["who sat", "who ran", "what"]
    assert table["title"] == ["Cats", "Cats", "Rain"]
    assert table["is_impossible"] == [None, True, None]
    labels, keep = Spans().encode_labels([table["answers"], table["context"]])
    assert keep.all()
    assert list(labels) == [(("the cat", 0), ("cat", 4)), (), (("it", 1),)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": [{"paragraphs": 3}]}, "article 1: 'paragraphs' is not a list"),
        ({"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}, "article 1, paragraph 1: 'context' is '3', not text"),
        ({"data": [{"paragraphs": [{"context": "a"}]}]}, "paragraph 1: 'qas' is not a list"),
        ({"data": [{"paragraphs": [{"context": "a", "qas": ["b"]}]}]}, "question 1: 'b' is not an object"),
        ({"data": [{"paragraphs": [{"context": "a", "qas": [{}]}]}]}, "question 1: 'question' is 'None'"),
        ({"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": [3]}]}]}]}, "answer 1"),
        ({"data": [{"paragraphs": []}]}, "the file has no rows"),
    ],
)
def test_a_file_of_squad_that_is_not_as_published_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "train.json", json.dumps(change))


def test_json_with_other_data_is_no_file_of_squad(tmp_path: Path) -> None:
    assert read(tmp_path, "rows.json", '{"data": "a"}\n{"data": "b"}\n') == {"data": ["a", "b"]}
    assert read(tmp_path, "rows.json", '{\n"data": "a"\n}\n') == {"data": ["a"]}
    with pytest.raises(DataError, match="line 1: not JSON"):
        read(tmp_path, "rows.json", json.dumps(SQUAD)[:-20])
