from __future__ import annotations

import bz2
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from read_files import read, write

from attribune import check
from attribune.data import json_lines
from attribune.data.checking import table_check
from attribune.data.judgement_layouts import find_export
from attribune.data.table_files import ENDINGS, header_columns
from attribune.data.tables import read_table, table_source_name
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema.columns import require_columns


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("a,b\n1,2\n3,4\n", [("1", "2"), ("3", "4")]),
        ("a,b\r1,2\r3,4", [("1", "2"), ("3", "4")]),
        ("a,b\r1,2\n3,4\r\n\r\n5,6\r", [("1", "2"), ("3", "4"), ("5", "6")]),
        ('a,b\n"x, y","line\none"\n"say ""hi""",\n', [("x, y", "line\none"), ('say "hi"', "")]),
        ('a,b\r"one\r\ntwo",2\r', [("one\r\ntwo", "2")]),
        ("\ufeffa , b\n 1,é\n", [(" 1", "é")]),
        ('a,b\n"",007\n', [("", "007")]),
    ],
)
def test_csv_is_read_as_text(tmp_path: Path, content: str, rows: list[tuple[str, str]]) -> None:
    got = read(tmp_path, "t.csv", content)
    assert list(got) == ["a", "b"]
    assert list(zip(got["a"], got["b"], strict=True)) == rows


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), ending=st.sampled_from(["\n", "\r", "\r\n"]))
def test_every_text_survives_a_csv_file(tmp_path: Path, rows: list[tuple[str, str]], ending: str) -> None:
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    got = read(tmp_path, "t.csv", ending.join(["a,b", *quoted]))
    assert list(zip(got["a"], got["b"], strict=True)) == rows


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-32"])
def test_encodings_are_found(tmp_path: Path, encoding: str) -> None:
    content = "a,b\nnaïve “quotes”,€5\n".encode(encoding)
    want = {"a": ["naïve “quotes”"], "b": ["€5"]}
    assert read(tmp_path, "t.csv", content) == want
    assert read(tmp_path, "t.csv", content, encoding=encoding) == want


def test_latin_1_is_the_last_resort_and_says_so(tmp_path: Path) -> None:
    rows = b"".join(b"an English row, number %d\n" % number for number in range(20))
    with pytest.warns(AttribuneWarning, match=r"t\.csv is neither UTF-8 nor Windows-1252 \(2 bytes fit neither\)"):
        got = read(tmp_path, "t.csv", b"a,b\n" + rows + b"x\x9d,y\x89\xdb\x9d\n")
    assert {name: cells[-1] for name, cells in got.items()} == {"a": "x\x9d", "b": "y\x89Û\x9d"}


@pytest.mark.slow
def test_an_encoding_found_late_in_a_large_file_is_right(tmp_path: Path) -> None:
    lines = ["a,b"] + [f"text é {number},x" for number in range(100_000)]
    content = "\n".join(lines).encode()
    assert len(content) > 2**20  # more than one chunk, cut inside characters
    assert read_table(write(tmp_path, "t.csv", content)).num_rows == 100_000
    broken = write(tmp_path, "t.csv", content + b"\nlast \xe9,y")
    place = rf"line 100002: byte e9 at position {len(content) + 6:,} cannot be decoded"
    with pytest.raises(DataError, match=f"{place}, so the file is not utf-8"):
        read_table(broken, encoding="utf8")
    with pytest.raises(DataError, match=f"{place}, though the other 100,000 characters beyond ASCII are UTF-8"):
        read_table(broken)
    assert read_table(broken, encoding="cp1252")[100_000] == {"a": "last é", "b": "y"}


def test_a_bad_byte_is_placed_rightly_after_a_character_cut_by_a_chunk(tmp_path: Path) -> None:
    start = b"a\n" + b"x" * (2**20 - 3) + "é\n".encode()
    assert len(start) == 2**20 + 2
    with pytest.raises(DataError, match=rf"line 3: byte e9 at position {len(start) + 1:,} cannot"):
        read(tmp_path, "t.csv", start + b"y\xe9\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"t\.csv: the file is empty"),
        ("\n\r\n", "the file is empty"),
        ("a,b\n", "has a header but no rows"),
        ("a,,b\n1,2,3\n", r"column 2 of 3 has no name: .*index=False"),
        ("a,\n1,2\n", r"column 2 of 2 has no name: .*index=False"),
        ("Answers of May,,\na,b,c\n1,2,3\n", r"column 2 of 3 has no name: remove the title above the header"),
        ("sep=,\na,b\n1,2\n", r"column 2 of 2 has no name: remove the title above the header"),
        ("a,b,a\n1,2,3\n", "two columns are named 'a'"),
        ("a,b\n1,2\n\n3\n", r"t\.csv, line 4 \(row 2\): 1 field, but the header has 2; .* '3': add the fields"),
        ('a,b\n"1\n\n",2\n3,4,5\n', r"line 5 \(row 2\): 3 fields, .* has 2; .* '3,4,5': put fields that contain ','"),
        ('a,b\n1,2\n3,"4\n5,6\n', r"row starting in line 3: a quote is opened and never closed"),
        ('a,b\n1,"2"x\n', r"row starting in line 2: ',' expected after '\"'"),
        ("a,b\r1,2\r3,\0\r", r"t\.csv, line 3: a NUL character"),
        ("a,b\n1,2\n".encode("utf-16-le"), r"line 1: a NUL character"),
    ],
)
def test_broken_csv_names_file_line_and_cure(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "t.csv", content)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["a,b,c", "only", '"open,quote', '"x"y,z'])
@pytest.mark.parametrize("good", [10, 300, 12_345])
def test_a_fault_late_in_a_file_is_placed_and_blank_lines_are_passed_over(
    tmp_path: Path, good: int, fault: str
) -> None:
    rows = [f't{number},"u{number}\nsecond line"' for number in range(good)]
    lines = ["text,user", "", *rows[:5], "", *rows[5:]]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(lines) + "\n\n")
    table = read_table(path)
    assert list(table["text"]) == [f"t{number}" for number in range(good)]
    assert table[good - 1]["user"] == f"u{good - 1}\nsecond line"
    path.write_text("\n".join([*lines, fault, "t,u"]) + "\n")
    first_line = 1 + 2 + 2 * good + 1
    with pytest.raises(DataError, match=rf"line {first_line}\b"):
        read_table(path)


def test_a_wrong_or_unknown_encoding_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", b"a,b\n1,2\n\xe9,3\n")
    with pytest.raises(DataError, match="line 3: byte e9 at position 8 cannot be decoded, so the file is not utf-8"):
        read_table(path, encoding="UTF-8")
    with pytest.raises(ConfigError, match="unknown encoding 'utf-99'"):
        read_table(path, encoding="utf-99")
    assert read_table(path, encoding="cp1252")["a"] == ["1", "é"]


def test_tabs_separate_and_quotes_can_be_plain(tmp_path: Path) -> None:
    assert read(tmp_path, "t.tsv", 'a\tb\n1,5\t"x\ty"\n') == {"a": ["1,5"], "b": ["x\ty"]}
    raw = 'a\tb\n"Hello" he said\tx\n'
    with pytest.raises(DataError, match="quoting=False"):
        read(tmp_path, "t.tsv", raw, quoting=True)
    assert read(tmp_path, "t.tsv", raw, quoting=False) == {"a": ['"Hello" he said'], "b": ["x"]}


def test_a_field_can_be_longer_than_the_csv_module_likes(tmp_path: Path) -> None:
    long = "x" * 200_000
    assert read(tmp_path, "t.csv", f"a,b\n{long},1\n") == {"a": [long], "b": ["1"]}


def test_compressed_files_are_read_and_broken_ones_named(tmp_path: Path) -> None:
    content = b"a,b\n" + b"\n".join(b"%d,%d" % (n, n * n) for n in range(5000))
    want = read(tmp_path, "t.csv", content)
    for name, packed in (("t.csv.gz", gzip.compress(content)), ("t.csv.bz2", bz2.compress(content))):
        assert read(tmp_path, name, packed) == want
        with pytest.raises(DataError, match=rf"{name}: the compressed file is truncated or damaged"):
            read(tmp_path, name, packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"t\.jsonl\.gz: the compressed file is truncated or damaged"):
        read(tmp_path, "t.jsonl.gz", b'{"a": 1}')


def test_json_lines_have_columns_and_types(tmp_path: Path) -> None:
    rows = [
        '{"user": 17, "tags": ["a", 1.0], "score": 1, "flag": true, "n": 3, "mixed": [1]}',
        "",
        '{"user": "17", "tags": null, "score": 2.5, "late": "x", "mixed": "plain"}',
        '{"user": 17.0, "deep": {"k": [1, "é"]}, "big": 9007199254740993}',
        '{"big": 0.5, "huge": 99999999999999999999}',
    ]
    assert read(tmp_path, "t.jsonl", "\n".join(rows)) == {
        "user": ["17", "17", "17", None],
        "tags": [["a", "1"], None, None, None],
        "score": [1.0, 2.5, None, None],
        "flag": [True, None, None, None],
        "n": [3, None, None, None],
        "mixed": ["[1]", "plain", None, None],
        "late": [None, "x", None, None],
        "deep": [None, None, '{"k": [1, "é"]}', None],
        "big": [None, None, "9007199254740993", "0.5"],
        "huge": [None, None, None, "99999999999999999999"],
    }
    assert read(tmp_path, "t.ndjson", '{"a": null}\n{"a": null}') == {"a": [None, None]}


def test_a_type_can_change_in_a_later_batch(tmp_path: Path) -> None:
    rows = [json.dumps({"a": number}) for number in range(10_001)] + ['{"a": "x"}']
    column = read(tmp_path, "t.jsonl", "\n".join(rows))["a"]
    assert (column[0], column[10_001]) == ("0", "x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}\n\n{"a": \n', r"t\.jsonl, line 3: not JSON"),
        ('{"a": 1}\n7\n', r"line 2: not an object \('7'\)"),
        ('[{"a": 1}, 7]', r"item 2: not an object \('7'\)"),
        (" \n\n", "the file has no rows"),
        ("{}\n{}", "rows are empty objects"),
        ('{"": 1}', "has no name"),
        ('{"a": 1}\n{"a": "\\ud800"}', r"line 2: column 'a' holds half of a character pair"),
        ('{"a":' * 3000 + "1" + "}" * 3000, r"line 1: not JSON|cannot"),
        ('{"a": "x\0"}', "a NUL character"),
    ],
)
def test_broken_json_names_file_line_and_cure(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "t.jsonl", content)


def test_parquet_keeps_types_and_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {"n": [1, 2, 3], "tags": [["a"], [], None], "none": [None] * 3}
    pd.DataFrame({"u": pd.Categorical(["x", "y", "x"]), **columns}).to_parquet(path)
    assert read_table(path).to_dict() == {"u": ["x", "y", "x"], **columns}
    whole = path.read_bytes()
    for content in (whole[:-10], whole[: len(whole) // 2], b"PAR1 not really PAR1", b"x"):
        with pytest.raises(DataError, match=r"t\.parquet: "):
            read(tmp_path, "t.parquet", content)
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), path)
    with pytest.raises(DataError, match="has columns but no rows"):
        read_table(path)


FORMS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {  # what is read, if it is not the file
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "parquet": pd.DataFrame.to_parquet,
    "feather": pd.DataFrame.to_feather,
    "DataFrame": lambda frame, _: frame,
    "Arrow": lambda frame, _: pa.Table.from_pandas(frame),
    "Dataset": lambda frame, _: datasets.Dataset.from_pandas(frame),
}


@pytest.mark.parametrize("form", FORMS)
def test_blanks_around_the_names_of_columns_are_left_out_of_every_table(form: str, tmp_path: Path) -> None:
    path, columns = tmp_path / f"rows.{form}", {"text": ["a", "b"], "stars": ["1", "2"], "user": ["u", "v"]}
    frame = pd.DataFrame(columns).rename(columns={"text": " text", "stars": "stars "})
    source = FORMS[form](frame, path)
    assert read_table(path if source is None else source).to_dict() == columns
    if form == "parquet":
        assert header_columns(path) == list(columns)


def test_data_frames_and_arrow_tables_are_taken_as_they_are() -> None:
    frame = pd.DataFrame({"a": [1, "x", None], 2: pd.Categorical(["p", "q", "p"]), "t": [["a"], ["b", "c"], None]})
    frame.index = [7, 8, 9]
    want = {"a": ["1", "x", None], "2": ["p", "q", "p"], "t": [["a"], ["b", "c"], None]}
    assert read_table(frame).to_dict() == want
    assert read_table(pa.table({"a": [1, 2]})).to_dict() == {"a": [1, 2]}
    dataset = datasets.Dataset(pa.table({"a": [1]}))
    assert read_table(dataset).to_dict() == {"a": [1]}
    (cell,) = read_table(dataset.with_format("torch"))["a"]
    assert (cell, isinstance(cell, torch.Tensor)) == (1, False)
    names = datasets.Features({"y": datasets.ClassLabel(names=["neg", "pos"])})
    numbered = datasets.Dataset.from_dict({"y": [1, 0, -1, None]}, features=names)
    assert read_table(numbered).to_dict() == {"y": ["pos", "neg", None, None]}
    several = r"holds several tables \('train', 'test'\): choose one, as in source\['train'\]"
    for source, message in (
        (pd.DataFrame(np.ones((1, 2)), columns=["a", "a"]), "two columns are named 'a'"),
        (datasets.DatasetDict({"train": dataset, "test": dataset}), several),
        (5, "cannot be read from int"),
    ):
        with pytest.raises(DataError, match=message):
            read_table(source)


def test_files_that_are_not_there_or_not_tables(tmp_path: Path) -> None:
    for name, content in (("reviews.csv", "a\n1\n"), ("t.dbf", "x"), ("empty.parquet", "")):
        write(tmp_path, name, content)
    for name, message in {
        "review.csv": r"there is no such file; did you mean '.*reviews\.csv'",
        "zzz.csv": "holds no similar name",
        "no/x.csv": "nor a folder",
        "": "is a folder: name the file in it",
        "t.dbf": r"unknown ending '.dbf': convert the file to one of \.csv",
        "empty.parquet": r"empty\.parquet: the file is empty",
    }.items():
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / name)
    assert {".csv", ".tsv.gz", ".jsonl", ".parquet"} <= set(ENDINGS)


def test_a_name_that_is_no_file_is_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = datasets.Dataset(pa.table({"a": [1]}))
    asked: list[tuple[str, str | None]] = []

    def load(name: str, split: str | None) -> Any:
        asked.append((name, split))
        if name == "me/broken":
            raise ConnectionError("no route\nto host")
        if split is not None:
            return one
        return datasets.DatasetDict({"train": one} if name == "me/one" else {"train": one, "test": one})

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert read_table("me/one").to_dict() == {"a": [1]}
    assert read_table("me/two:train[:10%]").to_dict() == {"a": [1]}
    with pytest.raises(DataError, match="has several splits: name one of 'me/two:train', 'me/two:test'"):
        read_table("me/two")
    with pytest.raises(DataError, match=r"'me/broken' is neither a file here nor .* \(no route\): check"):
        read_table("me/broken")
    assert asked == [("me/one", None), ("me/two", "train[:10%]"), ("me/two", None), ("me/broken", None)]
    (tmp_path / "me").mkdir()
    for name in ("me/one", "you/reviews.csv"):
        with pytest.raises(DataError, match="no such file"):
            read_table(name)


def test_a_large_table_is_read_from_disk(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "a,b\n" + "".join(f"{n},text {n}\n" for n in range(25_000)))
    cache = tmp_path / "cache"
    table = read_table(path, cache_dir=cache, in_memory=10_000)
    assert len(list(cache.iterdir())) == 1
    assert table.cache_files[0]["filename"].startswith(str(cache))
    assert table.num_rows == 25_000
    assert table[24_999] == {"a": "24999", "b": "text 24999"}
    assert read_table(path, cache_dir=cache).to_dict() == table.to_dict()
    assert len(list(cache.iterdir())) == 1
    path.write_text(path.read_text() + "1,2,3\n")
    with pytest.raises(DataError, match="line 25002"):
        read_table(path, cache_dir=cache, in_memory=10_000)
    assert len(list(cache.iterdir())) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match=r"cannot be kept in .*t\.csv .*name another folder"):
        read_table(path, cache_dir=path, in_memory=0)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_temporary_folder_goes_with_the_process(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "a,b\n1,2\n")
    code = (
        "import sys; from attribune.data.tables import read_table; "
        "t = read_table(sys.argv[1], in_memory=0); sys.stdout.write(t.cache_files[0]['filename'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "attribune-" in done.stdout
    assert not Path(done.stdout).parent.exists()


def test_columns_can_be_required() -> None:
    table = datasets.Dataset(pa.table({"user": ["a"]}))
    require_columns(table.column_names, ["user"])
    with pytest.raises(DataError, match=r"^data\.csv has no column 'usr'; did you mean 'user'"):
        require_columns(table.column_names, ["usr"], source=table_source_name(Path("data.csv")))
    assert table_source_name(table) == "the Dataset"


def test_keys_that_change_with_every_row_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_MOST_CELLS", 10_000)
    rows = "".join(json.dumps({"text": "a", f"k{row}": row}) + "\n" for row in range(5_000))
    expected = r"the first 200 rows have 201 different keys, and 2 of them in a row .*'k199': where keys hold values"
    with pytest.raises(DataError, match=expected):
        read(tmp_path, "t.jsonl", rows)


@pytest.mark.parametrize("keys", [1, 40])
def test_many_rows_or_many_keys_that_rows_share_are_read(
    keys: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 40 keys, a row has one of them."""
    monkeypatch.setattr(json_lines, "_MOST_CELLS", 1_000)
    rows = "".join(json.dumps({"text": "a", f"k{row % keys}": row}) + "\n" for row in range(2_000))
    assert read_table(write(tmp_path, "t.jsonl", rows)).shape == (2_000, 1 + keys)


def test_all_of_many_columns_have_their_decimal_commas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{number}" for number in range(200)]
    content = ";".join(["text", *names]) + "\n" + ";".join(["a", *["0,5"] * len(names)]) + "\n"
    table = read_table(write(tmp_path, "t.csv", content))
    assert table[0] == {"text": "a"} | dict.fromkeys(names, "0.5")
    monkeypatch.setattr(table_check, "_MOST_COLUMNS", 200)
    with pytest.raises(DataError, match="the Dataset has 201 columns, and each of at most 200 can be checked"):
        check(table)


def test_columns_of_many_scales_are_no_judges() -> None:
    """All pairs of ten thousand columns would be compared for hours."""
    text = {"text": ["some words of a text"] * 6}
    assert find_export(pa.table(text | {f"c{n}": [n, n + 1, n, n + 1, n, n + 1] for n in range(5_000)})) is None
    few = pa.table(text | {f"c{n}": [1, 2, 1, 2, 1, 2] for n in range(5_000)})
    assert len(find_export(few).used) == 5_000
