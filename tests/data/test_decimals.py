"""What tables of other countries and programs have: decimal commas, an index, words for no value, stars."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from read_files import read

from attribune import ConfigError, DataError, check
from attribune.data.tables import read_table
from attribune.schema import Categorical, Number, Schema
from attribune.schema.columns import MISSING
from attribune.tasks import Rating, Regression
from attribune.tasks.labels import label_number

NUMBERS = {
    "0,75": "0.75",
    "-3,5": "-3.5",
    "1.902,50": "1902.50",
    "12.345.678,9": "12345678.9",
    "1.902": "1902",
    **{f"1{space}902,50": "1902.50" for space in " \u00a0\u202f'"},
    **{plain: plain for plain in ("7", "-", "n/a", "")},
}


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas_are_found_between_semicolons(tmp_path: Path, delimiter: str) -> None:
    content = "\n".join([f"text{delimiter}x", *(f"a, b{delimiter}{written}" for written in NUMBERS)])
    written, numbers = list(NUMBERS), list(NUMBERS.values())
    assert read(tmp_path, "t.csv", content)["x"] == (numbers if delimiter == ";" else written)
    assert read(tmp_path, "t.csv", content, decimal=".")["x"] == written
    assert read(tmp_path, "t.csv", content, decimal=",")["x"] == numbers


def test_commas_between_thousands_are_no_decimals_unless_it_is_said(tmp_path: Path) -> None:
    """Numbers of which all have three digits behind the comma, or none, are thousands; all with three may be either."""
    content = "text;x;y;z\na;1,334;1,334;1,881,983\nb;998;2,500;7,000\n"
    rows = read(tmp_path, "t.csv", content)
    assert (rows["x"], rows["y"], rows["z"]) == (["1,334", "998"], ["1.334", "2.500"], ["1,881,983", "7,000"])
    rows = read(tmp_path, "t.csv", content, decimal=",")
    assert (rows["x"], rows["z"]) == (["1.334", "998"], ["1,881,983", "7,000"])


def test_points_between_thousands_are_read_beside_decimal_commas_or_where_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = "text;x\na;1.234\nb;12.500\n"
    assert read(tmp_path, "t.csv", points)["x"] == ["1.234", "12.500"]
    assert "decimal points in 'x' ('1.234')" in caplog.text
    assert read(tmp_path, "t.csv", points, decimal=",")["x"] == ["1234", "12500"]
    assert read(tmp_path, "t.csv", points, decimal=".")["x"] == ["1.234", "12.500"]
    assert read(tmp_path, "t.csv", "text;x\na;48.1\nb;11.575\n", decimal=",")["x"] == ["48.1", "11.575"]
    rows = [f"a;1,5;{number}.000;48.137;11.575" for number in range(1, 6)]
    mixed = "\n".join(["text;price;count;place;east", *rows, "a;2;7;1.5;11.575"])
    read_rows = read(tmp_path, "t.csv", mixed)
    assert (read_rows["count"][-2:], read_rows["price"][-1]) == (["5000", "7"], "2")
    assert (read_rows["place"][-2:], read_rows["east"][0]) == (["48.137", "1.5"], "11.575"), "they may be fractions"
    assert "decimal commas in 'price' ('1,5'), points between thousands in 'count' ('1.000')" in caplog.text


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1,334", "998"], "have commas between thousands, such as '1,334', and are texts here: write them without"),
        (["1,334,000", "1,998"], "have commas between thousands, such as '1,334,000'"),
        (["49,709", "12,400"], "have commas, such as '49,709', and are texts here: write those between thousands"),
        (["49,7", "12,25"], "have decimal commas, such as '49,7', and are texts here: read a file with decimal=','"),
        (["6.809", "950"], "such as '6.809' stand beside whole ones below 1000, and are read as fractions"),
        (["6.809", "1950"], None),
        (["6.809", "0.250"], None),
    ],
)
def test_marks_in_numbers_are_said(cells: list[str], words: str | None) -> None:
    rows = [
        {"text": f"some words of review {row}", "price": cells[row % 2], "stars": str(row % 3)} for row in range(60)
    ]
    for label in ("stars", "price"):
        warnings = [str(one) for one in check(pd.DataFrame(rows), text="text", label=label).findings]
        found = [one for one in warnings if one.startswith("column 'price'") and ("comma" in one or "fractions" in one)]
        is_said = words is not None and (label == "price" or "decimal commas" not in words)  # which may be two values
        assert len(found) == is_said
        assert not found or words in found[0]


OTHERS = [
    ["1,5", "well, yes"],
    ["1,2,3", "4,5"],
    ["10.08.2021", "1,5"],
    ["12.34,5", "1,5"],
    ["1.5", "2"],
    ["1e5", "1,5"],
]


@pytest.mark.parametrize("cells", OTHERS)
def test_other_columns_stay(tmp_path: Path, cells: list[str]) -> None:
    assert read(tmp_path, "t.csv", "\n".join(["text;x", *(f"a;{cell}" for cell in cells)]))["x"] == cells


def test_commas_between_fields_are_no_decimals_unless_it_is_said(tmp_path: Path) -> None:
    content = 'text,x\na,"1,234"\nb,"2,5"\n'
    assert read(tmp_path, "t.csv", content)["x"] == ["1,234", "2,5"]
    assert read(tmp_path, "t.csv", content, decimal=",")["x"] == ["1.234", "2.5"]
    with pytest.raises(ConfigError, match="decimal is ';'"):
        read(tmp_path, "t.csv", content, decimal=";")
    pd.DataFrame({"x": [1.5]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="leave out decimal"):
        read_table(tmp_path / "t.parquet", decimal=",")
    with pytest.raises(DataError, match=r"'1,234' is not a finite number: .*decimal=','"):
        Schema.fit(read_table(tmp_path / "t.csv"), [Number("x")])


def test_what_was_found_is_said_with_a_sample(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    many = "\n".join(f"{row};row {row};1,5" for row in range(25_000))
    got = read(tmp_path, "t.csv", f";text;x\n{many}")
    assert list(got) == ["Unnamed: 0", "text", "x"]
    assert set(got["x"]) == {"1.5"}
    assert "decimal commas in 'x' ('1,5')" in caplog.text
    assert "column 1 without a name as 'Unnamed: 0'" in caplog.text


def test_an_index_without_a_name_is_kept_and_is_no_attribute(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "text": [f"some words of a review, number {row}" for row in range(200)],
            "user": [f"u{row % 9}" for row in range(200)],
            "stars": [f"{row % 5 + 1} star{'s' * (row % 5 > 0)}" for row in range(200)],
        }
    )
    table.sample(frac=0.9, random_state=0).to_csv(tmp_path / "t.csv")
    checked = check(str(tmp_path / "t.csv"))
    assert {one.name: one.role for one in checked.columns}["Unnamed: 0"] == "id"
    assert checked.names("attribute") == ["user"]
    assert (checked.task.kind, "read from texts such as" in checked.task.words) == ("ordinal", True)
    for place, header in ((2, "text,,user"), (1, ",,user")):
        with pytest.raises(DataError, match=f"column {place} of 3 has no name"):
            read(tmp_path, "t.csv", f"{header}\n1,2,3\n")


def test_words_for_no_value_among_numbers_are_missing() -> None:
    words = ["-", "?", "n/a", "none", "NONE", "--"]
    table = {"age": ["31", *words, "40"], "side": ["left", *words, "right"]}
    schema = Schema.fit(table, [Number("age"), Categorical("side")])
    assert len(schema["side"].values) == 8
    assert [schema.fit_report.attributes[name].missing for name in ("age", "side")] == [6, 0]
    task = Rating(classes=("1", "2"), missing=("", *Rating.no_label))
    assert task.encode_labels([["1", "-", "2"]])[1].tolist() == [True, False, True]


def test_a_check_tells_words_for_no_value_from_numbers_and_names_them_elsewhere() -> None:
    chance = np.random.default_rng(0)
    rows = 400
    table = pd.DataFrame(
        {
            "text": [f"some words of a review, number {row}" for row in range(rows)],
            "price": [f"{price:.2f}" if row % 2 else "-" for row, price in enumerate(chance.lognormal(3, 1, rows))],
            "country": chance.choice(["DE", "FR", "?"], rows),
            "sent": ["2021-03-04" if row % 3 else "n/a" for row in range(rows)],
            "label": chance.choice(["yes", "no"], rows),
        }
    )
    checked = check(table)
    columns = {one.name: one for one in checked.columns}
    assert (columns["price"].kind, columns["price"].missing) == ("number", 200)
    assert columns["sent"].role == "time"
    assert [str(found) for found in checked.findings if found.code == "value-words"] == [
        f"these count as values: '?' in {(table['country'] == '?').sum()} rows of 'country'; if they mean that there "
        f"is none, use missing={[*MISSING, '?']}"
    ]


def test_stars_are_numbers() -> None:
    numbers = {
        4: [
            "4",
            "4 stars",
            "4-star",
            "4.0 out of 5 stars",
            "4/5 stars",
            "4/5",
            "4 out of 10",
            "4 %",
            "4 - Agree",
            "4=ok",
        ],
        4.5: ["4.5", "4,5 Sterne"],
        1: ["1 star"],
        5: ["5 Stars", "5\u2605"],
        3: ["3 étoiles", "\u2605\u2605\u2605\u2606\u2606"],
        2: ["2 estrellas", "\u2b50\ufe0f\u2b50\ufe0f"],
        None: [
            "stars",
            "4 apples",
            "starry",
            "\u2606\u2606",
            "6/5",
            "4/",
            "4,5",
            "",
            "4 - 5",
            "4:30",
            "4-D",
            "2024 - x",
        ],
    }
    assert {number: [label_number(text) for text in texts] for number, texts in numbers.items()} == {
        number: [number] * len(texts) for number, texts in numbers.items()
    }


def test_numbers_with_what_they_mean_may_be_classes_or_ratings() -> None:
    labels = ["1 - Disagree", "2 - Neutral", "3 - Agree"] * 20
    rows = pd.DataFrame({"text": [f"words of review {row}" for row in range(60)], "answer": labels})
    checked = check(rows, label="answer")
    assert checked.task.words.endswith("or ratings, from 1 to 3, read from texts such as '1 - Disagree'")
    assert checked.task.choices == ("classification", "ordinal", "rating")


def test_stars_are_learned_as_numbers() -> None:
    labels = ["5 stars", "1 star", "\u2605\u2605\u2605", "3"]
    task = Rating.fit([labels])
    assert task.classes == ("1", "3", "5")
    assert task.encode_labels([labels])[0].tolist() == [2, 0, 1, 1]
    assert not task.codec_for({"classes": task.classes}).outside([labels]).any()
    assert Regression.fit([labels]).mean == 3


@pytest.mark.parametrize("cells", [["80%", "0.8"], ["★★★★☆", "8/10"], ["80 %", "4/5"], ["4/5", "8 out of 10"]])
def test_labels_of_several_scales_are_refused(cells: list[str]) -> None:
    with pytest.raises(DataError, match=f"the labels are of several scales .'{cells[0]}', '{cells[1]}'"):
        Regression().encode_labels([cells])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["1", "2", "3", "999"], "the label '999' is in 20 rows, beside those from 1 to 3"),
        (["-1", "0", "1", "-99"], "the label '-99' is in 20 rows, beside those from -1 to 1"),
        (["7", "8", "9", "10"], ""),
        (["1", "5", "99"], ""),
        (["yes", "yes\u200b", "no"], r"'yes' \(20\), 'yes\\u200b' \(20\): write them in one way"),
        (["caf\u00e9", "cafe\u0301", "no"], r"'café' \(20\), 'cafe\\u0301' \(20\): write them in one way"),
    ],
)
def test_codes_and_signs_in_classes_are_said(labels: list[str], words: str) -> None:
    rows = pd.DataFrame(
        {"text": f"words of review {row}", "answer": labels[row % len(labels)]} for row in range(20 * len(labels))
    )
    said = " ".join(str(one) for one in check(rows, text="text", label="answer").findings)
    assert re.search(words, said) if words else "the label" not in said


def test_values_that_are_written_in_several_ways_are_said() -> None:
    names = ["Jos\u00e9", "Jose\u0301", "New York", "new york ", "b", "B2"] * 10
    rows = pd.DataFrame({"text": [f"words of review {row}" for row in range(60)], "who": names})
    rows["answer"] = ["yes"] * 20 + ["no"] * 40
    (said,) = (one for one in check(rows, text="text", label="answer").findings if one.code == "alike-values")
    assert (said.values["column"], said.values["groups"]) == ("who", 2)
    assert r"'José' (10), 'Jose\u0301' (10); 'New York' (10), 'new york' (10): write them in one way" in str(said)


def test_words_for_no_label_and_classes_of_test_rows_are_said() -> None:
    texts = [f"words of review {row}" for row in range(60)]
    rows = pd.DataFrame({"text": texts, "answer": ["For", "Against", "None"] * 20})
    test = pd.DataFrame({"text": ["other words", "and others"], "answer": ["For", "great"]})
    said = [str(one) for one in check(rows, text="text", label="answer", test=test).findings]
    assert any(one.startswith("20 rows without a label, which a training leaves out: 'None' (20); ") for one in said)
    assert any(one.startswith("test: 1 row has a label that no training row has: 'great' (1)") for one in said)


@pytest.mark.parametrize("cells", [["★★★★☆", "4/5", "★★★★★"], ["80 %", "75"], ["0.5", "0.8"]])
def test_labels_of_one_scale_are_numbers(cells: list[str]) -> None:
    assert np.isfinite(Regression().encode_labels([cells])[0]).all()
