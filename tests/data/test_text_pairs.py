"""Pairs of texts: as the tokenizer itself joins and cuts them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import WORDS, whole_words

from attribune.data.encoding import encode_with_report
from attribune.data.readers.base import Collator
from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import Chunks, Head, HeadTail, PairTokens, parse_window, shares
from attribune.errors import ConfigError
from attribune.schema import Categorical, Schema

TEXTS = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
SECONDS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join)  # an empty one is none there


@pytest.mark.slow
@given(TEXTS, SECONDS, st.integers(6, 70), st.sampled_from(["bert", "roberta", "decoder"]))
def test_the_longer_text_is_cut_as_the_tokenizer_does(first: str, second: str, size: int, kind: str) -> None:
    taker = whole_words(kind)
    expected = taker(first, second, truncation="longest_first", max_length=size, return_token_type_ids=True)
    text = TextInput.of("a", pair="b", window=Head(size))
    rows = TextEncoder(taker, window=text.window, segments=kind != "roberta").rows(text, {"a": [first], "b": [second]})
    assert rows.inputs[0] == expected["input_ids"]
    if kind == "roberta":
        assert rows.segment_starts is None
    else:
        kinds = (np.arange(len(rows.inputs[0])) >= rows.segment_starts[0]).astype(int)
        assert kinds.tolist() == expected["token_type_ids"]
    assert rows.shortened[0] == (len(taker(first, second)["input_ids"]) > size)


@pytest.mark.slow
@given(TEXTS, SECONDS, st.booleans())
def test_a_named_text_is_cut_as_the_tokenizer_does(first: str, second: str, cut_first: bool) -> None:
    taker = whole_words()
    size = max(6, len((second if cut_first else first).split()) + 5)
    truncation = "only_first" if cut_first else "only_second"
    text = TextInput.of("a", pair="b", window=Head(size), truncation=truncation)
    rows = TextEncoder(taker, window=text.window).rows(text, {"a": [first], "b": [second]})
    expected = taker(first, second, max_length=10**6)["input_ids"]
    if len(expected) > size:
        expected = taker(first, second, truncation=truncation, max_length=size)["input_ids"]
    assert rows.inputs[0] == expected


@pytest.mark.parametrize("truncation", ["longest_first", "only_first", "only_second"])
def test_shares_fill_the_room(truncation: str) -> None:
    for first in range(9):
        for second in range(9):
            for room in range(2, first + second):
                one, two = shares(first, second, room, truncation=truncation)  # type: ignore[arg-type]
                assert one + two == room
                assert 0 <= one <= first
                assert 0 <= two <= second
    with pytest.raises(ConfigError, match=r"truncation: .* it is .both."):
        TextInput.of("a", pair="b", truncation="both")  # type: ignore[arg-type]


def test_a_tokenizer_without_a_separator_gets_ours() -> None:
    assert PairTokens.of(whole_words("nothing"), segments=False, separator="so").between == (
        whole_words().convert_tokens_to_ids("so"),
    )
    assert PairTokens.of(whole_words("nothing"), segments=True, separator="").between == ()


def test_head_and_tail_of_both_texts_are_kept() -> None:
    window = HeadTail(4, 4, count_special=True)
    text = TextInput.of("a", pair="b", window=window)
    taker = whole_words()
    rows = TextEncoder(taker, window=window).rows(text, {"a": ["the film was a plot cast"], "b": ["so"]})
    assert taker.decode(rows.inputs[0]) == "[CLS] the film plot cast [SEP] so [SEP]"


@pytest.mark.parametrize("side", ["right", "left"])
def test_segments_in_a_batch(side: str) -> None:
    taker = whole_words()
    taker.padding_side = side
    table = {"a": ["the film", "a"], "b": ["plot", ""], "user": ["x", "y"], "label": [0, 1]}
    schema = Schema.fit(table, [Categorical("user")])
    text = TextInput.of("a", pair="b", window=Head(12))
    encoder = TextEncoder(taker, window=text.window, segments=True)
    rows, report = encode_with_report(table, schema, taker, text=text, label="label", encoder=encoder)
    assert report.shortened == 0
    batch = Collator(taker, schema)([rows[0], rows[1]])
    shown = {"right": [0, 0, 0, 1, 0, 0], "left": [0, 0, 0, 0, 0, 1]}
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1], shown[side]]
    assert batch["token_type_ids"].dtype == torch.int64


def test_a_pair_is_kept_with_the_model() -> None:
    text = TextInput.of("a", pair=["b", "c"], window=Chunks(8), truncation="only_second")
    assert TextInput.from_dict(text.to_dict()) == text
    assert text.names == ("a", "b", "c")
    assert text.read_all({"a": ["x "], "b": ["y"], "c": [None]}) == ["x\ny"]
    assert "pair" not in TextInput.of("a").to_dict()


def test_what_cannot_be() -> None:
    text = TextInput.of("a", pair="b", window=parse_window("head:4", max_length=4))
    encoder = TextEncoder(whole_words(), window=text.window)
    with pytest.raises(ConfigError, match=r"this model reads no prompt \(c\): name its columns as text"):
        encoder.rows(TextInput.of("a", pair="b", prompt="c"), {"a": ["x"], "b": ["y"], "c": ["z"]})
    with pytest.raises(ConfigError, match="leaves room for 1 ids of two texts beside 3 special tokens"):
        encoder.rows(text, {"a": ["x"], "b": ["y"]})


def test_rows_without_any_text_are_empty() -> None:
    text = TextInput.of("a", pair="b", window=Head(12))
    rows = TextEncoder(whole_words(), window=text.window).rows(text, {"a": ["", " ", "x"], "b": ["", "y", None]})
    assert rows.empty.tolist() == [True, False, False]
