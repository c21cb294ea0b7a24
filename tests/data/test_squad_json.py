"""Files of SQuAD, as they are published, as tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from attribune.data.tables import read_table
from attribune.errors import DataError
from attribune.tasks import Spans

QAS = [
    {
        "id": "1",
        "question": "who sat",
        "answers": [{"text": "the cat", "answer_start": 0}, {"text": "cat", "answer_start": 4}],
    },
    {"id": "2", "question": "who ran", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "cat"}]},
]
FILE = {
    "version": "v2.0",
    "data": [
        {"title": "Cats", "paragraphs": [{"context": "the cat sat", "qas": QAS}, {"context": "nothing", "qas": []}]},
        {
            "title": "Rain",
            "paragraphs": [
                {
                    "context": " it fell",
                    "qas": [{"id": "3", "question": "what", "answers": [{"text": "it", "answer_start": 1}]}],
                }
            ],
        },
    ],
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_the_published_format_is_read(indent: int | None, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / f"dev-v2.0.json{'.gz' if packed else ''}"
    data = json.dumps(FILE, indent=indent).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    table = read_table(path)
    assert table["question"][:] == ["who sat", "who ran", "what"]
    assert table["title"][:] == ["Cats", "Cats", "Rain"]
    assert table["is_impossible"][:] == [None, True, None]
    labels, keep = Spans().encode_labels([table["answers"][:], table["context"][:]])
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
    path = tmp_path / "train.json"
    path.write_text(json.dumps(change))
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_other_json_is_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('{"data": "a"}\n{"data": "b"}\n')
    assert read_table(path)["data"][:] == ["a", "b"]
    path.write_text('{\n"data": "a"\n}\n')
    assert read_table(path)["data"][:] == ["a"]
    path.write_text(json.dumps(FILE)[:-20])
    with pytest.raises(DataError, match="line 1: not JSON"):
        read_table(path)
