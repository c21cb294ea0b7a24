from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pytest

from attribune.data import encoding
from attribune.data.encoding import encode, encode_with_report
from attribune.data.readers.text import TextEncoder
from attribune.data.tables import ArrowStore
from attribune.data.texts import TextInput, join_text
from attribune.data.windows import Head, HeadTail
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Aspects, Classification

ROWS = {
    "user": ["a", "b", None, "new", "a", "a"],
    "tags": [["x"], ["y", "x"], [], None, ["x"], ["x"]],
    "text": ["w0 w1", " w2 ", "   ", "w3 w4 w5 w6", None, "w7"],
    "title": ["w9", None, "", "w8", "w1", None],
    "stars": ["4", "5", "5", "2", "4", ""],
}
SCHEMA = Schema.fit(ROWS, [Categorical("user", min_count=1), MultiLabel("tags")])


LABELLED: dict[str, Any] = {"label": "stars", "task": Classification(classes=("4", "5"))}


def tables(columns: dict[str, Any]) -> list[Any]:
    arrow = pa.table(columns)
    return [columns, arrow, datasets.Dataset(arrow), pd.DataFrame(columns)]


@pytest.mark.parametrize("number", range(4))
def test_every_kind_of_table_is_encoded(tokenizer: Any, number: int) -> None:
    data, report = encode_with_report(tables(ROWS)[number], SCHEMA, tokenizer, text="text", **LABELLED)
    words = [["w0", "w1"], ["w2"], ["w3", "w4", "w5", "w6"]]
    assert data["input_ids"] == [[1, *tokenizer.convert_tokens_to_ids(text), 2] for text in words]
    user, tags = SCHEMA["user"].values, SCHEMA["tags"].values
    a, b, new = (user.index(name) + 1 for name in ("a", "b", "new"))
    x, y = (tags.index(name) + 1 for name in ("x", "y"))
    assert data["attribute_ids"] == [[a, x, 0], [b, y, x], [new, 0, 0]]
    assert data["labels"] == [0, 1, -100]
    assert data["length"] == [4, 3, 6]
    assert report.kept.tolist() == [0, 1, 3]
    assert (report.rows, report.empty_text, report.no_label, report.unseen_labels) == (6, 2, 1, 1)
    assert report.lines()[:3] == [
        "rows left out, without a text: 2 of 6",
        "rows left out, without a label: 1 of 6",
        "rows whose label is not among the classes: 1 of 6",
    ]
    assert report.schema.attributes["user"].missing == 1


def test_batches_and_a_file_on_disk_change_nothing(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"text": ["title", "text"], **LABELLED, "cache_dir": tmp_path}
    whole, report = encode_with_report(ROWS, SCHEMA, tokenizer, **settings)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(encoding, "_BATCH", 2)
    monkeypatch.setattr(encoding, "ArrowStore", partial(ArrowStore, in_memory=0))
    parts, again = encode_with_report(ROWS, SCHEMA, tokenizer, **settings)
    assert len(list(tmp_path.iterdir())) == 1
    assert parts.to_dict() == whole.to_dict()
    assert again.kept.tolist() == report.kept.tolist() == [0, 1, 3, 4]
    assert again.lines() == report.lines()


def test_empty_texts_can_stay(tokenizer: Any, tokenizer_of: Any) -> None:
    kept, report = encode_with_report(ROWS, SCHEMA, tokenizer, text="text", on_empty_text="keep")
    assert len(kept) == 6
    assert kept["input_ids"][2] == kept["input_ids"][4] == [1, 2]
    assert report.empty_text == 0
    assert "labels" not in kept.column_names
    decoder = tokenizer_of("gpt2")
    bare = encode(ROWS, SCHEMA, decoder, text="text", on_empty_text="keep")
    assert bare["input_ids"][2] == [decoder.eos_token_id]


def test_rows_with_some_of_several_labels_can_stay(tokenizer: Any) -> None:
    rows = {**ROWS, "text": ["w1"] * 6, "look": ["1", "", "2", "", "", "1"], "taste": ["", "2", "1", "", "", ""]}
    task = Aspects(names=("look", "taste"), classes=("1", "2"))
    settings: dict[str, Any] = {"text": "text", "label": ["look", "taste"], "task": task}
    with pytest.warns(AttribuneWarning, match="^encode: rows left out, without a label: 5 of 6$"):
        assert encode(rows, SCHEMA, tokenizer, **settings)["labels"] == [[1, 0]]
    data, report = encode_with_report(rows, SCHEMA, tokenizer, **settings, on_missing_label="partial")
    assert data["labels"] == [[0, -100], [-100, 1], [1, 0], [0, -100]]
    assert (report.no_label, report.unseen_labels) == (2, 0)
    with pytest.raises(DataError, match="no row is left"):
        encode({**rows, "taste": [""] * 6}, SCHEMA, tokenizer, **settings)


@pytest.mark.parametrize(
    ("labels", "kind", "kept"),
    [([3, None, 0, 1, 1, 2], "int64", [3, 1, 2]), ([0.5, 1.5, 1, 2, 3, float("nan")], "float32", [0.5, 1.5, 2])],
)
def test_numbers_are_labels_without_a_task(tokenizer: Any, labels: list[Any], kind: str, kept: list[Any]) -> None:
    with pytest.warns(AttribuneWarning, match="rows left out, without a label: 1 of 6"):
        data = encode(pd.DataFrame({**ROWS, "y": pd.array(labels)}), SCHEMA, tokenizer, text="text", label="y")
    assert data["labels"] == kept
    assert data.features["labels"].dtype == kind


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({}, {"text": "txt"}, "no column 'txt'; did you mean 'text'"),
        ({}, {"text": "text", "label": "star"}, "no column 'star'"),
        ({"user": [["a"]] * 6}, {"text": "text"}, "column 'user', row 1"),
        ({}, {"text": "tags"}, "text column 'tags' holds list"),
        ({"text": [""] * 6}, {"text": "text"}, "no row is left to encode; rows left out, without a text: 6 of 6"),
        ({"user": [""] * 5}, {"text": "text"}, "different numbers of rows"),
        ({}, {"text": "text", "on_empty_text": "error"}, "row 3 has no text"),
        ({}, {"text": "text", **LABELLED, "on_missing_label": "error"}, "row 6 has no label"),
    ],
)
def test_tables_that_cannot_be_encoded_are_refused(
    tokenizer: Any, change: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        encode({**ROWS, **change}, SCHEMA, tokenizer, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": []}, "at least one column"),
        ({"on_empty_text": "ignore"}, "on_empty_text='ignore'"),
        ({"on_missing_label": "keep"}, "on_missing_label='keep'"),
        ({"window": Head(9), "limit": 8}, "backbone takes 8"),
        ({"label": "stars"}, "'stars' holds string, such as '4'"),
        ({"label": ["stars", "title"]}, "label columns 'stars', 'title' need a task"),
    ],
)
def test_settings_that_cannot_be_are_refused(tokenizer: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encode(ROWS, SCHEMA, tokenizer, **{"text": "text", **settings})


def test_the_window_cuts_and_counts(tokenizer: Any, tokenizer_of: Any) -> None:
    data, report = encode_with_report(ROWS, SCHEMA, tokenizer, text="text", window=HeadTail(1, 1))
    assert data["input_ids"][2] == [1, *tokenizer.convert_tokens_to_ids(["w3", "w6"]), 2]
    assert report.shortened == 1
    assert "texts cut to the window: 1 of 6" in report.lines()
    assert str(TextEncoder(tokenizer).window) == "head:512"
    assert str(TextEncoder(tokenizer, limit=128).window) == "head:128"
    assert str(TextEncoder(tokenizer_of(model_max_length=64)).window) == "head:64"


def test_joined_texts_pass_over_what_is_missing() -> None:
    joined = ["w9 / w0 w1", "w2", "", "w8 / w3 w4 w5 w6", "w1", "w7"]
    assert join_text([ROWS["title"], ROWS["text"]], separator=" / ") == joined
    assert join_text([[1.0, " a ", float("nan")]]) == ["1", "a", ""]


def test_prediction_keeps_every_row_and_names_the_row(tokenizer: Any) -> None:
    texts = TextEncoder(tokenizer)
    rows = texts.encode(ROWS, SCHEMA, text=TextInput.of(["title", "text"]))
    assert len(rows.inputs) == len(rows.attribute_ids) == 6
    assert rows.empty.tolist() == [False, False, True, False, False, False]
    strict = Schema.fit({"user": ["a"]}, [Categorical("user", unseen="error")])
    with pytest.raises(DataError, match="row 102: the value 'b'"):
        texts.encode(ROWS, strict, text=TextInput.of("text"), first_row=101)
    with pytest.raises(DataError, match="no column 'user'"):
        texts.encode({"text": ["w1"]}, SCHEMA, text=TextInput.of("text"))
    assert texts.encode(ROWS, Schema([]), text=TextInput.of("text")).attribute_ids.shape == (6, 0)
    with pytest.warns(AttribuneWarning, match="rows left out, without a text: 2 of 6"):
        assert encode(ROWS, Schema([]), tokenizer, text="text")["attribute_ids"] == [[]] * 4
