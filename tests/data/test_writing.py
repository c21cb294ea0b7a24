from __future__ import annotations

import datetime as dt
import errno
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_files import write

from attribune.data.file_options import AS_FOUND, FileOptions
from attribune.data.tables import common_form, read_as_written, read_table
from attribune.data.writing import ENDINGS, open_writer, prediction_array
from attribune.errors import ConfigError, DataError

TABLE = pa.table(
    {
        "text": ['plain, with "quotes"', "two\nlines", None],
        "n": [1, None, 3],
        "p": [0.25, float("nan"), float("inf")],
        "tags": [["a", "ü"], [], None],
        "day": [dt.date(2024, 1, 2)] * 3,
    }
)


def saved(path: Path) -> Path:
    with open_writer(path) as writer:
        writer.write(TABLE)
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_batches_come_out_in_order_and_the_file_appears_at_the_end(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    with open_writer(path) as writer:
        writer.write(TABLE)
        assert not path.exists()
        writer.write(TABLE.slice(0, 1))
    assert os.listdir(tmp_path) == [path.name]
    found = read_table(path)
    assert found.column_names == TABLE.column_names
    assert [text or None for text in found["text"]] == [*TABLE["text"].to_pylist(), 'plain, with "quotes"']


def test_json_has_null_for_what_is_no_number_and_keeps_letters(tmp_path: Path) -> None:
    lines = saved(tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [row["p"] for row in rows] == [0.25, None, None]
    assert rows[0]["day"] == "2024-01-02"
    assert '"ü"' in lines[0]


def test_lists_in_csv_are_json_and_parquet_keeps_types(tmp_path: Path) -> None:
    assert read_table(saved(tmp_path / "out.csv"))["tags"] == ['["a", "ü"]', "[]", ""]
    assert pq.read_schema(saved(tmp_path / "out.parquet")) == TABLE.schema


def test_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the ending '\.xls' is not one of \.csv, \.tsv"):
        saved(tmp_path / "out.xls")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("x"), DataError("x")])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interruption_leaves_the_earlier_file(tmp_path: Path, ending: str, error: BaseException) -> None:
    path = tmp_path / f"out{ending}"
    path.write_text("dear")

    def write() -> None:
        with open_writer(path) as writer:
            writer.write(TABLE)
            raise error

    with pytest.raises(type(error)):
        write()
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "dear"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_that_cannot_be_written_is_found_before_anything_is_computed(tmp_path: Path, ending: str) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DataError, match=r"cannot be written \(Not a directory\): choose another place"),
        open_writer(tmp_path / "file" / f"out{ending}"),
    ):
        pytest.fail("the block was entered")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"out\.csv cannot be written \(No space left on device\): free some space"),
        open_writer(tmp_path / "out.csv"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert os.listdir(tmp_path) == []


def test_predictions_of_lists_have_one_type_whatever_they_hold() -> None:
    assert prediction_array([[], []]).type == prediction_array([["a"], []]).type == pa.list_(pa.string())
    assert prediction_array(["a", "b"]).type == pa.string()


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (";price;who\n0;1.000,50;n/a\n1;-;b\n", ";price;who;p\n0;1.000,50;n/a;0,000025\n1;-;b;2,0\n"),
        ("price;who\n2;a.5\n3;b\n", "price;who;p\n2;a.5;2.5e-05\n3;b;2.0\n"),
        ("price|who\n2|a,5\n3|b\n", "price|who|p\n2|a,5|2.5e-05\n3|b|2.0\n"),
        (",who\n0,a\n1,b\n", ",who,p\n0,a,2.5e-05\n1,b,2.0\n"),
        ("price,who\n2,a\n3,b\n", "price,who,p\n2,a,2.5e-05\n3,b,2.0\n"),
    ],
)
def test_a_table_is_written_in_the_form_of_the_one_that_was_read(content: str, written: str, tmp_path: Path) -> None:
    """And is read again with the same columns and values."""
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(content)
    table = read_as_written(source).with_format("arrow")[:].append_column("p", pa.array([2.5e-5, 2.0]))
    with open_writer(output, form=common_form([source], AS_FOUND)) as writer:
        writer.write(table)
    assert output.read_text().replace("\r\n", "\n") == written
    again = read_table(output)
    assert again.column_names == table.column_names
    assert [float(one) for one in again["p"]] == [2.5e-5, 2.0]
    assert again.to_pandas()[table.column_names[:-1]].equals(read_table(source).to_pandas())


def test_other_files_have_the_form_of_their_ending(tmp_path: Path) -> None:
    first = write(tmp_path, "a.csv", "a;b\n1,5;2\n")
    other = write(tmp_path, "b.csv", "a,b\n1,2\n")
    for sources in ([first, other], [write(tmp_path, "c.jsonl", '{"a": 1}\n')], [TABLE]):
        assert common_form(sources, AS_FOUND) is None
    assert common_form([other], FileOptions(delimiter=";", decimal=".")).delimiter == ";"
    output = tmp_path / "out.tsv"
    with open_writer(output, form=common_form([first], AS_FOUND)) as writer:
        writer.write(pa.table({"a": ["1.5"], "b": ["2"]}))
    assert output.read_text().split() == ["a", "b", "1.5", "2"]
