"""What values can do to a reader: nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest

from attribune.core.wording import one_line, printable
from attribune.data.writing import open_writer
from attribune.errors import ConfigError
from attribune.metrics.tables import text_cells

UNSAFE = ["\x1b[31mred", "\x9b2J", "\r", "\x07", "\x00", "\u202eevil", "\u2066", "a\u2028b", "\ud800", "\x7f"]


@pytest.mark.parametrize("text", UNSAFE)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for shown in (one_line(text), printable(text)):
        assert shown.isprintable()
        assert "\\" in shown


def test_ordinary_text_stays() -> None:
    text = "Zoë: 日本語, a\tb, \\x1b, 👍\nsecond line"
    assert printable(text) == text
    assert one_line("a\nattribune: done\tb") == "a\\nattribune: done\\tb"
    assert one_line("Zoë 日本語 👍") == "Zoë 日本語 👍"


def test_a_value_is_one_line_of_a_table() -> None:
    lines = text_cells([["user", "n"], ["a\nb", "1"], ["\x1b[2J", "2"]]).splitlines()
    assert lines[2:] == [r"a\nb     1", r"\x1b[2J  2"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_formulas_are_escaped_where_that_is_asked_for(text: str, tmp_path: Path) -> None:
    rows = pa.table({"text": [text, "fine"], "=name": [-1.5, 2.0]})
    for escape in (False, True):
        with open_writer(tmp_path / "a.csv", escape_formulas=escape) as writer:
            writer.write(rows)
        with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
            head, first, second = csv.reader(file)
        mark = "'" if escape else ""
        assert (head, first, second) == (["text", f"{mark}=name"], [f"{mark}{text}", "-1.5"], ["fine", "2.0"])


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_other_formats_have_no_formulas(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only CSV and TSV"), open_writer(tmp_path / name, escape_formulas=True):
        raise AssertionError
