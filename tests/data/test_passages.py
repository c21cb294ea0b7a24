"""Questions with contexts: their windows, what tokens stand for, and which one stands for no answer."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from small_tokenizers import bytes_with_spaces, pieces
from tokenizers import processors

from attribune.data.readers.tokens import PassageEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import Head, HeadTail
from attribune.errors import ConfigError, DataError
from attribune.tasks import Spans
from attribune.tasks.spans import NULL, AnswerSpan
from attribune.tasks.tokens import TokenRow

TEXT = TextInput.of("question", pair="context")


def encode(
    question: Any, context: Any, *, tokenizer: Any = None, size: int = 64, task: Spans | None = None, **options: Any
) -> TokenRow:
    encoder = PassageEncoder(tokenizer or pieces(), task or Spans(), window=Head(size), **options)
    return encoder.rows(TEXT, {"question": [question], "context": [context]}).inputs[0]


def letters(count: int) -> str:
    return " ".join("abcdefghijklmnopqrstuvwxyz"[number % 26] for number in range(count))


def test_a_short_context_is_one_window() -> None:
    context = "  ab\tc, \u00e4d\n"
    row = encode("xy", context, segments=True)
    (window,) = row.windows
    assert row.text == context  # as it is, with its spaces
    assert (window.ids[:4], window.ids[-1], window.segment_start) == ([2, 27, 54, 3], 3, 4)  # [CLS] x ##y [SEP]
    assert window.marks[[0, 1, 2, 3, -1]].tolist() == [[NULL, NULL], *[[-1, -1]] * 4]
    found = [context[start:end] for start, end in window.marks[4:-1]]
    assert found == ["a", "b", "c", ",", "\u00e4", "d"]


@pytest.mark.parametrize(("size", "stride"), [(10, None), (12, 3), (9, 1), (16, 100)])
def test_windows_cover_all_and_overlap(size: int, stride: int | None) -> None:
    context = letters(40)
    row = encode("xy", context, size=size, task=Spans(doc_stride=stride))
    room = size - 5  # [CLS] x ##y [SEP] ... [SEP]
    step = min(stride or size // 3, room)
    firsts = [int(window.marks[4, 0]) // 2 for window in row.windows]
    assert firsts == [*range(0, 40 - room, step), 40 - room]
    for window, first in zip(row.windows, firsts, strict=True):
        assert len(window.ids) == size
        assert window.marks[4:-1].tolist() == [[2 * place, 2 * place + 1] for place in range(first, first + room)]
        answers = [[AnswerSpan(context[2 * number], 2 * number)] for number in range(40)]
        whole = [number for number in range(40) if Spans().window_labels(window, answers[number])[0] != 3]
        assert whole == list(range(first, first + room))


def test_a_long_question_is_cut_and_counted() -> None:
    encoder = PassageEncoder(pieces(), Spans(), window=Head(20))
    rows = encoder.rows(TEXT, {"question": [letters(90), "x"], "context": [letters(30), letters(30)]})
    assert rows.shortened.tolist() == [True, False]
    # Eight of seventeen beside three special tokens:
    assert rows.inputs[0].windows[0].ids[1:10] == [*range(4, 12), 3]
    rows = PassageEncoder(pieces(), Spans(max_question_length=5), window=Head(64)).rows(
        TEXT, {"question": [letters(6)], "context": ["a"]}
    )
    assert rows.shortened.all()
    assert rows.inputs[0].windows[0].ids == [2, 4, 5, 6, 7, 8, 3, 4, 3]


def test_no_answer_is_the_last_token_of_a_decoder() -> None:
    for before in (False, True):
        tokenizer = bytes_with_spaces()
        if before:
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single="<end> $A", pair="<end> $A $B", special_tokens=[("<end>", 0)]
            )
        row = encode("it", "a cat", tokenizer=tokenizer, is_causal=True)
        (window,) = row.windows
        assert window.ids[-1] == 0
        assert window.marks[-1].tolist() == [NULL, NULL]
        assert (window.marks[:, 0] == NULL).sum() == 1
        spans = [row.text[start:end] for start, end in window.marks if start >= 0]
        assert "".join(spans) == "acat"  # the space before a word belongs to no answer
    (window,) = encode("", "a", tokenizer=bytes_with_spaces()).windows  # begins with no token of its own
    assert window.marks[-1].tolist() == [NULL, NULL]


@pytest.mark.parametrize("context", ["", " ", "\u0000", "\ufe0f", None, float("nan")])
def test_contexts_without_tokens(context: Any) -> None:
    (window,) = encode("x", context).windows
    assert (window.marks[:, 0] >= 0).sum() == 0
    assert (window.marks[:, 0] == NULL).sum() == 1


def test_a_context_of_a_hundred_thousand_characters() -> None:
    context = letters(50_000)
    row = encode("what is it", context, size=384, task=Spans(doc_stride=128))
    covered = np.unique(np.concatenate([window.marks[window.marks[:, 0] >= 0, 0] for window in row.windows]))
    assert np.array_equal(covered, np.arange(0, 100_000, 2))


def test_a_token_of_spaces_is_no_answer() -> None:
    row = encode("x", "a   b", tokenizer=bytes_with_spaces())
    spans = [row.text[start:end] for start, end in row.windows[0].marks if start >= 0]
    assert spans == ["a", "b"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="leaves room for 1 ids of question and context beside 3"):
        encode("a", "b", size=4)
    with pytest.raises(ConfigError, match="not for tasks that score tokens"):
        PassageEncoder(pieces(), Spans(), window=HeadTail(4, 4))
    with pytest.raises(ConfigError, match="name the column of contexts as text_pair"):
        PassageEncoder(pieces(), Spans()).rows(TextInput.of("question"), {"question": ["a"]})
    with pytest.raises(DataError, match=re.escape("the text column 'context' holds list")):
        encode("a", ["b", "c"])
    slow = pieces()
    slow.__class__ = type("Slow", (type(slow),), {"is_fast": False})
    with pytest.raises(ConfigError, match="Slow does not say where tokens stand"):
        PassageEncoder(slow, Spans())
