"""Words as tokens: which ids they have, and the windows in which they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_tokenizers import LETTERS, bytes_with_spaces, pieces

from attribune.data.readers.tokens import TokenCollator, WordEncoder, window_starts
from attribune.data.texts import TextInput
from attribune.data.windows import Chunks, Head, HeadTail, content_ids
from attribune.errors import ConfigError, DataError
from attribune.schema import Schema
from attribune.tasks import UNSEEN, Tags

TASK = Tags(classes=["O", "B"], scheme="none")


def encode(tokenizer: Any, words: list[Any], *, size: int = 64) -> Any:
    rows = WordEncoder(tokenizer, TASK, window=Head(size)).rows(TextInput.of("words"), {"words": [words]})
    return rows.inputs[0]


@pytest.mark.parametrize("make", [pieces, bytes_with_spaces])
def test_words_have_the_ids_of_their_text(make: Any) -> None:
    tokenizer, words = make(), ["it", "was", "a", "it"]
    row = encode(tokenizer, words)
    (window,) = row.windows
    content = content_ids(tokenizer, [" ".join(words)])[0]
    start = window.ids.index(content[0])
    assert window.ids[start : start + len(content)] == content
    lengths = [len(content_ids(tokenizer, [("" if place == 0 else " ") + word])[0]) for place, word in enumerate(words)]
    first = start + np.cumsum([0, *lengths])[:-1]
    assert row.words == 4
    places = {place: int(window.marks[place]) for place in np.flatnonzero(window.marks >= 0)}
    assert places == dict(zip(first.tolist(), range(4), strict=True))


def test_words_without_tokens_are_read_as_unknown() -> None:
    row = encode(pieces(), ["a", "", "\u0000\u200b", "\ufe0f", None, float("nan"), "b", 7])
    (window,) = row.windows
    assert row.words == 8
    assert np.flatnonzero(window.marks >= 0).tolist() == list(range(1, 9))
    assert window.ids[1:9] == [4, 1, 1, 1, 1, 1, 5, 1]
    nothing = encode(pieces(), [])
    assert (nothing.words, nothing.windows[0].ids, nothing.windows[0].marks.max()) == (0, [2, 3], -1)
    row = encode(bytes_with_spaces(), ["", "a"])
    assert row.windows[0].ids[0] == 0


@pytest.mark.parametrize("size", [4, 5, 7, 12, 31])
def test_every_word_is_scored_once_where_it_has_most_context(size: int) -> None:
    chance, room = np.random.default_rng(size), size - 2
    words = ["".join(chance.choice(list(LETTERS), size=chance.integers(1, 4))) for _ in range(40)]
    row = encode(pieces(), words, size=size)
    content = [token for word in words for token in content_ids(pieces(), [word])[0]]
    first = np.cumsum([0, *(len(word) for word in words)])[:-1]
    starts = window_starts(len(content), room=room, step=max(1, room // 2)).tolist()
    seen = np.full(len(words), -1)
    for number, (window, start) in enumerate(zip(row.windows, starts, strict=True)):
        assert window.ids == [2, *content[start : start + room], 3]
        for place in np.flatnonzero(window.marks >= 0).tolist():
            word = int(window.marks[place])
            assert seen[word] == -1
            assert first[word] == start + place - 1
            seen[word] = number
    for word, number in enumerate(seen.tolist()):
        context = [min(first[word] - start, start + room - 1 - first[word]) for start in starts]
        assert context[number] == max(context)
    covered = {start + offset for start in starts for offset in range(room)}
    assert covered == set(range(max(covered) + 1)) >= set(range(len(content)))


@pytest.mark.slow
def test_a_text_of_a_hundred_thousand_words() -> None:
    row = encode(pieces(), ["ab"] * 100_000, size=128)
    marks = np.concatenate([window.marks[window.marks >= 0] for window in row.windows])
    assert np.array_equal(marks, np.arange(100_000))


def test_windows_are_padded_on_the_right_and_learn_nothing_there() -> None:
    tokenizer = pieces()
    tokenizer.padding_side = "left"
    rows = WordEncoder(tokenizer, TASK, window=Head(6)).rows(TextInput.of("words"), {"words": ["a b c d e f", "a"]})
    rows = replace(rows, attribute_ids=np.zeros((2, 0), dtype=np.int64), labels=[(0, 1, 0, 1, 0, 1), (1,)])
    read = rows.pieces()
    assert read.owners.tolist() == [0, 0, 1]
    assert [window.ids for window in read.windows] == read.rows.inputs
    batch = TokenCollator(tokenizer, Schema([])).collate(read.rows.features())
    assert batch["attention_mask"][2].tolist() == [1, 1, 1, 0, 0, 0]
    assert batch["labels"][2].tolist() == [UNSEEN, 1, UNSEEN, UNSEEN, UNSEEN, UNSEEN]
    assert sorted(batch["labels"][batch["labels"] != UNSEEN].tolist()) == [0, 0, 0, 1, 1, 1, 1]


def test_what_is_no_list_of_words_is_refused() -> None:
    encoder = WordEncoder(pieces(), TASK, window=Head(16))
    with pytest.raises(DataError, match=r"column 'words', row 8: .* is a list of lists"):
        encoder.rows(TextInput.of("words"), {"words": ["a", '[["b"]]']}, first_row=7)
    for window in (HeadTail(4, 4), Chunks(8, 2)):
        with pytest.raises(ConfigError, match="not for tasks that score tokens"):
            WordEncoder(pieces(), TASK, window=window)
    with pytest.raises(ConfigError, match="the backbone takes 8"):
        WordEncoder(pieces(), TASK, window=Head(16), limit=8)
    assert WordEncoder(pieces(), TASK, limit=9).window == Head(9)
    rows = encoder.rows(TextInput.of("words"), {"words": ["a b", None, '["a", "b"]', '[" ", ""]']})
    assert [row.words for row in rows.inputs] == [2, 0, 2, 2]
    assert rows.empty.tolist() == [False, True, False, True]
