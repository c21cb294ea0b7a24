"""Inputs and output folders that a prediction in parts cannot use."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small_runs
from commands import Attribune, Fails
from trained_runs import ROWS

from attribune import predict
from attribune.errors import ConfigError

pytestmark = pytest.mark.slow


Table = Callable[..., Path]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def write(name: str, rows: list[dict[str, Any]] = ROWS[:30]) -> Path:
        return small_runs.write_csv(tmp_path / name, rows)

    return write


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attribune.prediction.parts.PART_ROWS", 8)


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("part-*"))


def test_a_bad_row_in_the_second_file(
    fails: Fails, attribune: Attribune, runs: Path, tmp_path: Path, table: Table, in_parts: None
) -> None:
    a, b = table("a.csv"), table("b.csv")
    good = b.read_text()
    b.write_text(f"{good}too,few\n")
    words = ("predict", runs / "none", a, b, "--output", tmp_path / "out")
    assert f"{b}, line 32 (row 31): 2 fields, but the header has" in fails(*words)
    assert len(parts(tmp_path / "out")) == 4
    assert not (tmp_path / "out" / "_summary.json").exists()
    b.write_text(good)  # nothing was written of this file, so that it may change
    assert attribune(*words)[0] == 0
    assert len(parts(tmp_path / "out")) == 8


def test_rows_are_numbered_as_in_their_file(fails: Fails, runs: Path, tmp_path: Path, in_parts: None) -> None:
    frame = pd.DataFrame(ROWS[:30])
    frame["user"] = [None] * 20 + [["u1"]] + [None] * 9
    frame.to_parquet(tmp_path / "a.parquet")
    message = fails("predict", runs / "injector", tmp_path / "a.parquet", "--output", tmp_path / "out")
    assert f"{tmp_path / 'a.parquet'}: column 'user', row 21: ['u1'] is not one value" in message
    assert len(parts(tmp_path / "out")) == 2


@pytest.mark.parametrize("output", ["out", "out.csv"])
def test_other_columns_in_the_second_file(fails: Fails, runs: Path, tmp_path: Path, table: Table, output: str) -> None:
    a, b = table("a.csv"), table("b.csv", [{"text": "x", "user": "u1", "year": "1999"}])
    message = fails("predict", runs / "injector", a, b, "--output", tmp_path / output)
    missing = "'look', 'price', 'stars', 'tags', 'taste'"
    assert f"{b} has no column {missing} and has 'year' beside its columns, unlike {a}: give all files" in message
    assert not (tmp_path / output).exists()


def test_other_columns_where_only_the_rows_tell(fails: Fails, runs: Path, tmp_path: Path) -> None:
    for name, row in (("a", {"text": "x", "user": "u"}), ("b", {"text": "x"}), ("c", {"text": "x", "more": "y"})):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    a, b, c = (tmp_path / f"{name}.jsonl" for name in "abc")
    assert f"{b} has no column 'user'" in fails("predict", runs / "injector", a, b, "--output", tmp_path / "o1")
    message = fails("predict", runs / "none", a, c, "--output", tmp_path / "o2")
    assert f"{c} has no column 'user' and has 'more' beside its columns, unlike {a}" in message
    assert not (tmp_path / "o2" / "_summary.json").exists()


def test_folders_without_tables(fails: Fails, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    words = ("predict", runs / "none", tmp_path / "in", "--output", tmp_path / "out")
    assert "in: the folder holds no table (0 other files): name a folder whose files end in" in fails(*words)
    (tmp_path / "in" / "letter.txt").write_text("dear")
    assert "the folder holds no table (1 other files)" in fails(*words)

    def denied(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    assert "in: cannot be read (Permission denied): check the file and its rights" in fails(*words)
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be(fails: Fails, runs: Path, tmp_path: Path, table: Table) -> None:
    a, out = table("a.csv"), ("--output", tmp_path / "out")
    assert "a.csv is named twice" in fails("predict", runs / "none", a, tmp_path, *out)
    assert "did you mean" in fails("predict", runs / "none", tmp_path / "b.csv", *out)
    assert "owner/name" in fails("predict", runs / "none", "owner/name", *out)
    assert "unknown encoding 'utf-77'" in fails("predict", runs / "none", a, *out, "--encoding", "utf-77")
    assert "unknown ending '.txt'" in fails("predict", runs / "none", shutil.copy(a, tmp_path / "a.txt"), *out)
    (tmp_path / "e.csv").write_text("")
    assert "e.csv: the file is empty" in fails("predict", runs / "none", a, tmp_path / "e.csv", *out)
    (tmp_path / "p.parquet").write_bytes(b"PAR1")
    assert "p.parquet: truncated" in fails("predict", runs / "none", a, tmp_path / "p.parquet", *out)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="a DataFrame cannot be predicted into the folder"):
        predict(runs / "none", pd.DataFrame(ROWS), tmp_path / "out")
    with pytest.raises(ConfigError, match="no table is given"):
        predict(runs / "none", [], tmp_path / "out")


def test_a_header_in_another_encoding(runs: Path, tmp_path: Path) -> None:
    content = "größe,text,user\n1,x,u1\n"
    for name, encoding in (("a", "utf-8"), ("b", "cp1252"), ("c", "utf-16"), ("d", "utf-8-sig")):
        (tmp_path / f"{name}.csv").write_text(content, encoding=encoding)
    assert predict(runs / "injector", [tmp_path / f"{name}.csv" for name in "abcd"], tmp_path / "out") == 4
    assert list(pd.read_parquet(tmp_path / "out"))[:3] == ["größe", "text", "user"]


def test_folders_of_something_else(fails: Fails, runs: Path, tmp_path: Path, table: Table) -> None:
    a = table("a.csv")
    (tmp_path / "file").write_text("dear")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter").write_text("dear")
    words = ("predict", runs / "none", a, "--output")
    assert "file is a file: choose another output folder" in fails(*words, tmp_path / "file")
    assert "is not empty and holds no predictions" in fails(*words, tmp_path / "other")
    assert "cannot be written (Not a directory)" in fails(*words, tmp_path / "file" / "out")
    for damage in ("", "[]", "{}", '{"run": 1}'):
        (tmp_path / "other" / "_manifest.json").write_text(damage)
        assert "_manifest.json is not what a prediction writes" in fails(*words, tmp_path / "other")
    assert (tmp_path / "other" / "letter").read_text() == "dear"
    assert "it has no recipe.yaml" in fails("predict", tmp_path, a, "--output", tmp_path / "out")


def test_a_folder_is_of_one_run_and_its_files(
    fails: Fails, runs: Path, tmp_path: Path, table: Table, in_parts: None
) -> None:
    a, b, out = table("a.csv"), table("b.csv", ROWS[30:60]), tmp_path / "out"
    predict(runs / "none", [a, b], out)
    for finished in (True, False):
        if not finished:
            (out / "_summary.json").unlink()
            (out / parts(out)[0]).unlink()
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        message = fails("predict", runs / "linear", a, "--output", out, "--encoding", "utf-8")
        cure = "give the same, or choose another output folder"
        words = f"with another run and with encoding=None and of other files ({a}, {b})"
        assert f"was started {words}: {cure}" in message
        with pytest.raises(ConfigError, match="was started in parts of 8 rows: give the same"):
            predict(runs / "none", [a, b], out, part_rows=9)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_file_that_changed_is_predicted_anew_when_its_parts_are_removed(
    fails: Fails, attribune: Attribune, runs: Path, tmp_path: Path, table: Table, in_parts: None
) -> None:
    a, b, out = table("a.csv"), table("b.csv", ROWS[30:60]), tmp_path / "out"
    words = ("predict", runs / "none", a, b, "--output", out)
    assert attribune(*words)[0] == 0
    size = b.stat().st_size
    table("b.csv", ROWS[30:40])
    message = fails(*words)
    assert f"{b} had {size:,} bytes when it was predicted into {out}, and has {b.stat().st_size:,} now" in message
    assert "remove _summary.json and part-00002-*.parquet there" in message
    (out / "_summary.json").unlink()
    assert "had" in fails(*words)
    for path in out.glob("part-00002-*.parquet"):
        path.unlink()
    assert attribune(*words)[0] == 0
    assert pd.read_parquet(out)["text"].tolist() == [row["text"] for row in ROWS[:40]]


def test_a_finished_folder_says_so(attribune: Attribune, runs: Path, tmp_path: Path, table: Table) -> None:
    words = ("predict", runs / "none", table("a.csv"), "--output", tmp_path / "out")
    assert attribune(*words)[2].splitlines()[-1] == f"30 rows in 1 part written to {tmp_path / 'out'}"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert attribune(*words) == (0, "", f"{tmp_path / 'out'} is finished already: 30 rows in 1 part\n")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


def test_a_full_disk_keeps_what_is_finished(
    fails: Fails, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_parts: None
) -> None:
    from attribune.data.writing import _Parquet

    data, write, written = small_runs.write_csv(tmp_path / "a.csv", ROWS[:30]), _Parquet.write, []

    def full(self: _Parquet, rows: Any) -> None:
        if len(written) == 2:
            raise OSError(28, os.strerror(28))
        written.append(rows)
        write(self, rows)

    monkeypatch.setattr(_Parquet, "write", full)
    message = fails("predict", runs / "none", data, "--output", tmp_path / "out")
    assert "part-00001-000000000017.parquet cannot be written (No space left on device)" in message
    assert sorted(os.listdir(tmp_path / "out")) == [".lock", "_manifest.json", *parts(tmp_path / "out")]
    assert len(parts(tmp_path / "out")) == 2


def test_rows_of_a_part(runs: Path, tmp_path: Path) -> None:
    data = small_runs.write_csv(tmp_path / "a.csv", ROWS[:30])
    with pytest.raises(ConfigError, match="part_rows=0: give at least 1"):
        predict(runs / "none", data, tmp_path / "out", part_rows=0)
    with pytest.raises(ConfigError, match=r"part_rows=5 is for an output without an ending"):
        predict(runs / "none", data, tmp_path / "p.csv", part_rows=5)
    assert sorted(os.listdir(tmp_path)) == ["a.csv"]


def test_several_tables_and_the_file_that_is_written(fails: Fails, runs: Path, tmp_path: Path) -> None:
    a, b = (small_runs.write_csv(tmp_path / f"{name}.csv", ROWS[:30]) for name in "ab")
    content = b.read_bytes()
    assert "b.csv is the table that is read" in fails("predict", runs / "none", a, b, "--output", b)
    assert "b.csv is the table that is read" in fails("predict", runs / "none", tmp_path, "--output", b)
    assert b.read_bytes() == content
