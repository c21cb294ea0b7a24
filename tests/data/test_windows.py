from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import (
    Chunks,
    Head,
    HeadTail,
    SentenceChunks,
    SpecialTokens,
    content_ids,
    fair_shares,
    longest_input,
    parse_window,
    split_sentences,
)
from attribune.errors import ConfigError

KINDS = ["bert", "llama", "t5", "gpt2"]
BERT = SpecialTokens((101,), (102,))
NONE = SpecialTokens((), (), 9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(words=st.lists(st.integers(0, 60), max_size=30), size=st.integers(3, 20))
def test_head_gives_what_the_tokenizer_truncates_to(tokenizer_of: Any, kind: str, words: list[int], size: int) -> None:
    tokenizer = tokenizer_of(kind)
    text = " ".join(f"w{word}" for word in words)
    want = tokenizer(text, truncation=True, max_length=size)["input_ids"]
    special = SpecialTokens.of(tokenizer)
    got = Head(size).fit(content_ids(tokenizer, [text])[0], special)
    assert got == (want or [tokenizer.bos_token_id])


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_tokenizer_whatever_it_was_set_to_before(tokenizer_of: Any, kind: str) -> None:
    tokenizer, texts = tokenizer_of(kind), ["w1 w2 w3 w4", "", "w5", "unknown w6"]
    want = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer(texts, truncation=True, padding="max_length", max_length=2)  # the engine beneath remembers these
    assert content_ids(tokenizer, texts) == want
    assert content_ids(tokenizer, texts[:1]) == want[:1]
    assert content_ids(tokenizer, [*texts, *texts[::-1]]) == [*want, *want[::-1]]
    assert content_ids(tokenizer, []) == []


def test_a_tokenizer_that_works_in_python_too_is_asked_itself(tokenizer_of: Any) -> None:
    tokenizer = tokenizer_of("bert")

    class Reversed(type(tokenizer)):  # type: ignore[misc]
        def _encode_plus(self, text: list[str], **options: Any) -> Any:
            return super()._encode_plus([part[::-1] for part in text], **options)

    tokenizer.__class__ = Reversed
    texts = ["1w 2w", "3w"]
    assert content_ids(tokenizer, texts) == content_ids(tokenizer_of("bert"), [text[::-1] for text in texts])


@pytest.mark.parametrize(
    ("kind", "before", "after"), [("bert", (1,), (2,)), ("llama", (4,), ()), ("t5", (), (5,)), ("gpt2", (), ())]
)
def test_special_tokens_are_found_out(tokenizer_of: Any, kind: str, before: tuple[int], after: tuple[int]) -> None:
    special = SpecialTokens.of(tokenizer_of(kind))
    assert (special.before, special.after, len(special)) == (before, after, len(before) + len(after))


def test_head_and_tail_keep_both_ends() -> None:
    content = list(range(1000))
    assert HeadTail(250, 250).fit(content, BERT) == [101, *range(250), *range(750, 1000), 102]
    whole = [101, *content, 102]
    assert HeadTail(128, 384, count_special=True).fit(content, BERT) == whole[:128] + whole[-384:]
    start_only = SpecialTokens((1,), ())
    assert HeadTail(3, 4, count_special=True).fit(content, start_only) == [1, 0, 1, 996, 997, 998, 999]
    assert HeadTail(2, 3).fit(content, NONE) == [0, 1, 997, 998, 999]


def test_chunks_keep_the_beginning_of_a_document() -> None:
    """With its special tokens once, not once in every chunk."""
    content = list(range(1000))
    window = Chunks(256, 3)
    assert window.fit(content, BERT) == [101, *range(766), 102]
    assert window.fit(content, NONE) == content[:768]
    assert Chunks(4, 2).fit(content, SpecialTokens((1,), ())) == [1, *range(7)]
    assert Chunks(1, 5).fit(content, BERT) == [101, 0, 1, 2, 102]
    assert Chunks(256).fit(content, BERT) == [101, *content, 102], "up to 8 chunks, when no number is given"
    assert [window.length(special) for special in (BERT, NONE)] == [768, 768]
    assert (window.chunk, Head(7).chunk, HeadTail(2, 3).chunk) == (256, None, None)


@pytest.mark.parametrize("window", [HeadTail(2, 3), HeadTail(3, 4, count_special=True), Head(7), Chunks(7, 1)])
@pytest.mark.parametrize("size", range(9))
def test_a_text_that_fits_stays_whole(window: Any, size: int) -> None:
    content = list(range(size))
    fitted = window.fit(content, BERT)
    assert len(fitted) == min(size + 2, 7)
    assert (fitted == [101, *content, 102]) == (size <= 5)
    assert window.length(BERT) == 7


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        ("head:6", "w1, W2 w3"),
        ("head+tail:2+1", "w1, !"),
        ("head+tail:3+3:special", "w1, w7!"),
        ("chunks:4x2", "w1, W2 w3\nw4  w5"),
        ("chunks:4x2:1", "w1, W2"),
        ("chunks:4x3:2", "w1, W2 w3\nw4  w5"),
        ("head:11", "w1, W2 w3\nw4  w5 w7!"),
    ],
)
def test_the_part_of_a_text_that_is_kept_has_the_ids_that_are_kept(tokenizer_of: Any, window: str, kept: str) -> None:
    """Of the tokens w1 , W2 w3 w4 w5 w7 ! with [CLS] and [SEP]."""
    tokenizer, text = tokenizer_of("bert"), "w1, W2 w3\nw4  w5 w7!"
    encoder = TextEncoder(tokenizer, window=parse_window(window, max_length=9), limit=16)
    assert encoder.kept_texts(TextInput.of("text"), {"text": [text, "", "w1"]}) == [kept, "", "w1"]
    rows = encoder.rows(TextInput.of("text"), {"text": [text, kept]})
    if ":1" not in window and ":2" not in window:  # without chunks that overlap
        assert rows.inputs[0] == rows.inputs[1]


def test_kept_parts_of_sentences_are_not_told(tokenizer_of: Any) -> None:
    encoder = TextEncoder(tokenizer_of("bert"), window=SentenceChunks(4, 2), limit=16)
    assert encoder.kept_texts(TextInput.of("text"), {"text": ["w1. w2."]}) is None


@pytest.mark.parametrize(
    ("lengths", "room", "kept"),
    [
        ([3, 9, 9], 13, [3, 5, 5]),
        ([9, 3, 8], 14, [6, 3, 5]),
        ([9, 9, 1], 4, [2, 1, 1]),
        ([2, 2], 9, [2, 2]),
        ([5, 0, 7], 6, [3, 0, 3]),
        ([4, 4, 4], 2, [1, 1, 0]),
        ([7], 3, [3]),
    ],
)
def test_texts_share_a_room_fairly(lengths: list[int], room: int, kept: list[int]) -> None:
    assert fair_shares(lengths, room) == kept
    assert sum(kept) == min(room, sum(lengths))


@pytest.mark.parametrize(
    ("window", "columns", "kept"),
    [
        ("head:7", ("w1 W2 w3 w4", "w5 w7"), "w1 W2 w3\nw5 w7"),
        ("head:6", ("w1 W2 w3 w4 w7", "w5"), "w1 W2 w3\nw5"),
        ("head:6", ("w1 W2 w3", "", "w4 w5 w7"), "w1 W2\nw4 w5"),
        ("head+tail:2+2", ("w1 W2 w3 w4", "w5 w7 w1"), "w1 w4\nw5 w1"),
        ("chunks:3x2", ("w1 W2 w3 w4", "w5 w7"), "w1 W2\nw5 w7"),
        ("head:16", ("w1 W2 w3 w4", "w5 w7"), "w1 W2 w3 w4\nw5 w7"),
    ],
)
def test_columns_that_are_too_long_together_are_each_read(
    tokenizer_of: Any, window: str, columns: tuple[str, ...], kept: str
) -> None:
    encoder = TextEncoder(tokenizer_of("bert"), window=parse_window(window, max_length=9), limit=16)
    names = ("title", "body", "reply")[: len(columns)]
    text = TextInput.of(names, shares_window=True)
    table = {name: [cell, "w1"] for name, cell in zip(names, columns, strict=True)}
    assert encoder.kept_texts(text, table)[0] == kept
    rows = encoder.rows(text, table)
    whole = encoder.rows(TextInput.of("text"), {"text": [kept, "w1" + "\nw1" * (len(columns) - 1)]})
    assert rows.inputs == whole.inputs
    assert rows.shortened.tolist() == [window != "head:16", False]
    cut = encoder.rows(replace(text, shares_window=False), table)
    assert (cut.inputs == rows.inputs) == (window == "head:16")


def test_an_empty_text_keeps_one_token() -> None:
    assert Head(5).fit([], BERT) == [101, 102]
    assert Head(5).fit([], NONE) == [9]
    with pytest.raises(ConfigError, match="no bos, eos or pad token"):
        Head(5).fit([], SpecialTokens((), ()))


@pytest.mark.parametrize(
    "text",
    ["head:256", "head+tail:250+250", "head+tail:128+384:special", "chunks:512x4", "sentences:9x3", "sentences:9x3:de"],
)
def test_windows_are_written_and_read_back(text: str) -> None:
    assert str(parse_window(text, max_length=17)) == text


def test_a_window_without_sizes_takes_the_length() -> None:
    assert parse_window("head", max_length=17) == Head(17)
    assert parse_window(" head+tail ", max_length=17) == HeadTail(8, 9, count_special=True)
    assert parse_window("chunks", max_length=17) == Chunks(17, 8)
    assert parse_window("chunks:5", max_length=17) == Chunks(5, 8)
    assert str(parse_window("chunks:5", max_length=17)) == "chunks:5x8"


@pytest.mark.parametrize(
    "text",
    [
        *("", "tail", "head:", "head:-1", "head:0", "head+tail:3", "head+tail:1+0", "head:2:special", 5, None),
        *("chunks:", "chunks:x3", "chunks:5x", "chunks:0", "chunks:5x0", "chunks:5x-1", "chunks:5x2x2", "chunks5x2"),
        *("sentences:", "sentences:5x0", "sentences:0", "sentences:5x2:", "sentences:5x2:D", "sentences:5x2:3"),
    ],
)
def test_other_windows_are_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"unknown window|must be a whole number of at least 1"):
        parse_window(text, max_length=17)


def test_a_window_must_fit_the_backbone_and_a_chunk_but_not_its_document() -> None:
    HeadTail(255, 255).check(BERT, limit=512)
    HeadTail(1, 1).check(BERT, limit=None)
    Chunks(512, 9).check(BERT, limit=512)
    Chunks(5000, 2).check(BERT, limit=None)
    Chunks(1, 3).check(BERT, limit=512)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (HeadTail(256, 255), r"'head\+tail:256\+255' is 513 tokens .* takes 512"),
        (Head(513), "'head:513' is 513 tokens"),
        (Chunks(513, 1), "'chunks:513x1' is 513 tokens with special tokens, but the backbone takes 5"),
        (Head(2), "leaves no room beside 2 special tokens"),
        (HeadTail(1, 5, count_special=True), "leaves no room"),
        (Chunks(2, 1), "leaves no room beside 2 special tokens"),
        (Chunks(1, 2), "leaves no room beside 2 special tokens"),
        (SentenceChunks(2, 4), "'sentences:2x4' leaves no room beside 2 special tokens"),
        (Chunks(7, 3, 6), "would leave some out: choose a smaller stride"),
        (Chunks(7, 3, 7), "would leave some out: choose a smaller stride"),
    ],
    ids=str,
)
def test_a_window_that_does_not_fit_is_refused(window: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        window.check(BERT, limit=512)


def test_long_texts_are_tokenized_whole_and_quietly(tokenizer_of: Any, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = tokenizer_of(model_max_length=5)
    assert len(content_ids(tokenizer, ["w1 " * 100])[0]) == 100
    assert not caplog.records
    assert longest_input(tokenizer) == 5
    assert longest_input(tokenizer_of()) is None


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 8, 9, 10, 11, 30])
def test_chunks_with_a_stride_overlap(size: int) -> None:
    """Each has the special tokens; none of the text is left out before the last chunk, and no chunk is superfluous."""
    window, content = Chunks(7, 3, 2), list(range(size))
    fitted = window.fit(content, BERT)
    starts = range(0, max(min(size, 9) - 5, 0) + 2, 2)
    expected = [[101, *content[start : min(start + 5, 9)], 102] for start in starts]
    assert fitted == [token for chunk in expected for token in chunk]
    assert all(len(chunk) == 7 for chunk in expected[:-1])
    assert len(expected) <= 3
    assert {token for token in fitted if token < 100} == set(content[:9])
    assert window.capacity(BERT) == 9
    assert parse_window(str(window), max_length=3) == window


def test_sentences_are_filled_up_but_for_the_last() -> None:
    window = SentenceChunks(5, 3)
    assert window.join([[1], [1, 2, 3, 4], []], BERT) == [101, 1, 102, -1, -1, 101, 1, 2, 3, 102, 101, 102]
    assert window.join([[1]] * 4, BERT) == [101, 1, 102, -1, -1] * 2 + [101, 1, 102]
    assert window.split("One. Two.\n\n \nThree.") == ["One. ", "Two.", " \nThree."]
    assert window.split(" \n") == window.split("") == [""]


SPACES = "\u00a0\u2009\u2028\u202f\u3000\u0085"


@pytest.mark.parametrize("space", SPACES)
def test_wide_spaces_behind_capital_letters(space: str) -> None:
    """They stand there in French, before marks, and in text from web pages."""
    text = f"Un film de s\u00e9rie B{space}. Il est long{space}! Oui."
    sentences = split_sentences(text, language="fr")
    assert "".join(sentences) == text
    assert len(sentences) > 1
    assert split_sentences(f"B{space}.") == [f"B{space}."]


@pytest.mark.parametrize("language", ["en", "de", "ja", "zz"])
def test_nothing_is_lost(language: str) -> None:
    characters, draw = f"aBD.!? \n\t\r\"')(1\u2026\u3002\u00e9\u200d\u0301\U0001f389{SPACES}", random.Random(4)
    for _ in range(500):
        text = "".join(draw.choices(characters, k=draw.randrange(60)))
        sentences = split_sentences(text, language=language)
        assert "".join(sentences) == text
        assert all(sentences)
