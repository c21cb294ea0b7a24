"""Values in front of texts: the ids that a model reads, and what hiding and exchanging attributes does to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import small_tokenizers

from attribune import TextInput
from attribune.data.readers.in_text import InTextReader, InTextRows
from attribune.data.readers.text import TextEncoder
from attribune.data.windows import Head, HeadTail, Window, parse_window
from attribune.errors import ConfigError
from attribune.schema import Categorical, MultiLabel, Number, Numeric, Schema

WORDS = "user tags age year text one two three a b new red blue : ; , . 4 30 1999 below and above to"
TOKENIZER = small_tokenizers.only_words(WORDS.split())
TABLE: dict[str, list[Any]] = {
    "text": ["one two", "three", "one", "two"],
    "user": ["a", "b", None, "new"],
    "tags": [["red", "blue"], [], ["red"], []],
    "age": [4, 30, None, None],
    "year": [1999, None, None, None],
}
KINDS = [Categorical("user"), MultiLabel("tags"), Numeric("age", bins=2), Number("year")]
SCHEMA = Schema.fit({name: cells[:3] for name, cells in TABLE.items()}, KINDS)
WRITTEN = [
    "[CLS] user : a ; tags : red , blue ; age : 4 ; year : 1999 . one two [SEP]",
    "[CLS] user : b ; age : 30 . three [SEP]",
    "[CLS] tags : red . one [SEP]",
    "[CLS] user : new . two [SEP]",
]


def reader_of(
    window: Window | None = None, *, names: Sequence[str] | None = None, dropout: float = 0.0
) -> InTextReader:
    encoder = TextEncoder(TOKENIZER, window=window, limit=100, segments=True)
    return InTextReader(encoder, names=names, dropout=dropout)


def encoded(
    table: dict[str, list[Any]] = TABLE, *, reader: InTextReader | None = None, text: TextInput | None = None
) -> InTextRows:
    return (reader or reader_of()).encode(table, SCHEMA, text=text or TextInput.of("text"))


def read(rows: Any) -> list[str]:
    return [TOKENIZER.decode(ids) for ids in rows.pieces().rows.inputs]


def test_values_are_written_whether_they_are_known_or_not() -> None:
    rows = encoded()
    assert read(rows) == WRITTEN
    assert rows.attribute_ids.tolist() == SCHEMA.encode(TABLE)[0].tolist()


def test_hidden_values_are_not_written_even_if_they_are_unknown() -> None:
    rows = encoded()
    plain = TextEncoder(TOKENIZER, limit=100).rows(TextInput.of("text"), TABLE).inputs
    assert rows.hide_attributes().pieces().rows.inputs == plain
    without_user = rows.hide_attributes([SCHEMA["user"].columns])
    assert read(without_user)[1] == "[CLS] age : 30 . three [SEP]"
    assert read(without_user)[3] == "[CLS] two [SEP]"
    assert read(without_user.take([2, 3])) == [WRITTEN[2], "[CLS] two [SEP]"]
    assert read(InTextRows.concat([without_user, rows]))[4:] == WRITTEN


def test_the_ids_of_others_are_written_by_their_names() -> None:
    rows = encoded()
    ids = rows.attribute_ids.copy()
    ids[:, SCHEMA["user"].columns] = SCHEMA["user"].values.ids(["b"])
    ids[0, SCHEMA["age"].columns] = 2
    ids[1, SCHEMA["age"].columns] = 0
    changed = read(rows.with_attribute_ids(ids))
    assert changed[0] == WRITTEN[0].replace("user : a", "user : b").replace("age : 4", "age : 30 and above")
    assert changed[1:] == [
        "[CLS] user : b . three [SEP]",
        "[CLS] user : b ; tags : red . one [SEP]",
        "[CLS] user : b . two [SEP]",
    ]


@pytest.mark.parametrize(
    ("window", "long"),
    [
        (Head(12), "[CLS] user : b . one two three one two three [SEP]"),
        (HeadTail(4, 6), "[CLS] user : b . one two one two three a [SEP]"),
        (Head(8), "[CLS] user : b one two three [SEP]"),  # the values have half the window
    ],
    ids=str,
)
def test_the_text_is_cut_and_the_values_stay(window: Window, long: str) -> None:
    table = {name: [None] for name in TABLE} | {"user": ["b"], "tags": [[]]}
    table["text"] = (
        ["one two three one two three a b one two three a"]
        if isinstance(window, HeadTail)
        else ["one two three one two three a b"]
    )
    rows = encoded(table, reader=reader_of(window))
    assert rows.shortened.tolist() == [True]
    assert read(rows) == [long]
    assert max(rows.lengths) <= window.length(rows.reader.encoder.special)


def test_several_columns_share_what_the_values_leave() -> None:
    text = TextInput.of(["text", "more"], separator=" ", shares_window=True)
    table = {name: cells[1:2] for name, cells in TABLE.items()} | {"age": [None]}
    table |= {"text": ["one one one one one one"], "more": ["two two two two two two"]}
    rows = encoded(table, reader=reader_of(Head(12)), text=text)
    assert read(rows) == ["[CLS] user : b . one one one two two two [SEP]"]


def test_pairs_have_the_values_in_front_of_the_first() -> None:
    text = TextInput.of("text", pair="more")
    table = {name: cells[:2] for name, cells in TABLE.items()} | {"more": ["a b", "a"]}
    rows = encoded(table, text=text)
    whole = read(rows)
    assert whole[1] == "[CLS] user : b ; age : 30 . three [SEP] a [SEP]"
    pieces, hidden = rows.pieces().rows, rows.hide_attributes().pieces().rows
    for some in (pieces, hidden):
        for ids, start in zip(some.inputs, some.segment_starts, strict=True):
            assert TOKENIZER.decode(ids[start:]).startswith("a")
    assert TOKENIZER.decode(hidden.inputs[1]) == "[CLS] three [SEP] a [SEP]"


def test_values_are_left_out_of_training_rows_at_random() -> None:
    table = {name: cells[1:2] * 200 for name, cells in TABLE.items()}
    reader = reader_of(dropout=0.3)
    drawn = read(encoded(table, reader=reader.for_training(seed=3)))
    assert set(drawn) == {
        WRITTEN[1],
        "[CLS] user : b . three [SEP]",
        "[CLS] age : 30 . three [SEP]",
        "[CLS] three [SEP]",
    }
    assert 110 < sum("user" in one for one in drawn) < 170
    assert drawn == read(encoded(table, reader=reader.for_training(seed=3)))
    assert set(read(encoded(table, reader=reader))) == {WRITTEN[1]}


def test_what_cannot_be_written_is_refused() -> None:
    hashed = Schema.fit(TABLE, [Categorical("user", unseen="hash")])
    with pytest.raises(ConfigError, match=r"'user' are hashed.*leave unseen='hash' out"):
        reader_of().encode(TABLE, hashed, text=TextInput.of("text"))
    with pytest.raises(ConfigError, match=r"chunks:8x2.*choose head"):
        reader_of(parse_window("chunks:8x2", max_length=8))


def test_chosen_attributes_are_written_as_if_there_were_no_others() -> None:
    rows = encoded(reader=reader_of(names=["tags", "year"]))
    alone = Schema.fit({name: cells[:3] for name, cells in TABLE.items()}, [MultiLabel("tags"), Number("year")])
    expected = reader_of().encode(TABLE, alone, text=TextInput.of("text"))
    assert rows.pieces().rows.inputs == expected.pieces().rows.inputs
    assert rows.attribute_ids.tolist() == SCHEMA.encode(TABLE)[0].tolist()


def test_what_becomes_of_other_attributes_changes_no_text() -> None:
    rows = encoded(reader=reader_of(names=["user"]))
    whole = read(rows)
    assert whole[0] == "[CLS] user : a . one two [SEP]"
    ids = rows.attribute_ids.copy()
    ids[:, SCHEMA["tags"].columns] = 0
    ids[:, SCHEMA["age"].columns] = 2
    assert read(rows.with_attribute_ids(ids)) == whole
    assert read(rows.hide_attributes([SCHEMA["tags"].columns])) == whole
    assert read(rows.hide_attributes([SCHEMA["user"].columns]))[3] == "[CLS] two [SEP]"


def test_hashed_attributes_stay_unwritten() -> None:
    hashed = Schema.fit(TABLE, [Categorical("user", unseen="hash"), MultiLabel("tags")])
    rows = reader_of(names=["tags"]).encode(TABLE, hashed, text=TextInput.of("text"))
    assert read(rows)[0] == "[CLS] tags : red , blue . one two [SEP]"
    with pytest.raises(ConfigError, match="'user' are hashed"):
        reader_of(names=["user"]).encode(TABLE, hashed, text=TextInput.of("text"))


def test_rows_without_attributes_are_plain() -> None:
    rows = reader_of().encode(TABLE, Schema([]), text=TextInput.of("text"))
    assert read(rows)[0] == "[CLS] one two [SEP]"
    assert np.asarray(rows.attribute_ids).shape == (4, 0)
