"""Files of SQuAD, as they are published, as tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from read_files import read

from attribune.errors import DataError
from attribune.tasks import Spans

FOUND = [{"text": "the cat", "answer_start": 0}, {"text": "cat", "answer_start": 4}]
QAS = [
    {"id": "1", "question": "who sat", "answers": FOUND},
    {"id": "2", "question": "who ran", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "cat"}]},
]
FELL = [{"id": "3", "question": "what", "answers": [{"text": "it", "answer_start": 1}]}]
FILE = {
    "version": "v2.0",
    "data": [
        {"title": "Cats", "paragraphs": [{"context": "the cat sat", "qas": QAS}, {"context": "nothing", "qas": []}]},
        {"title": "Rain", "paragraphs": [{"context": " it fell", "qas": FELL}]},
    ],
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_the_published_format_is_read(indent: int | None, packed: bool, tmp_path: Path) -> None:
    data = json.dumps(FILE, indent=indent).encode()
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
def test_what_is_not_as_published_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "train.json", json.dumps(change))


def test_other_json_is_read_as_before(tmp_path: Path) -> None:
    assert read(tmp_path, "rows.json", '{"data": "a"}\n{"data": "b"}\n') == {"data": ["a", "b"]}
    assert read(tmp_path, "rows.json", '{\n"data": "a"\n}\n') == {"data": ["a"]}
    with pytest.raises(DataError, match="line 1: not JSON"):
        read(tmp_path, "rows.json", json.dumps(FILE)[:-20])
