"""Two texts that are compared: their ids, with and without a prompt, and batches of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_tokenizers import pieces

from attribune.data.encoding import encode
from attribune.data.readers.base import EncodedRows
from attribune.data.readers.prompts import PromptEncoder
from attribune.data.readers.text import CandidateCollator, CandidateEncoder, TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import Head
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema import Categorical, Schema
from attribune.tasks import Preference

TABLE: dict[str, list[Any]] = {
    "x": ["q", "", "aaaaaaaaaaaa"],
    "one": ["ab", "a", "bbbbbbbb"],
    "two": ["c", "d e f", "c"],
    "user": ["u", "v", "u"],
}
TOKENIZER = pieces()


def encoder(size: int = 12, *, segments: bool = True) -> CandidateEncoder:
    return CandidateEncoder(TextEncoder(TOKENIZER, window=Head(size), segments=segments))


def rows(*, prompt: bool = False, **changes: list[Any]) -> EncodedRows:
    text = TextInput.of("one", pair="two", prompt="x" if prompt else (), window=Head(12))
    return encoder().rows(text, TABLE | changes)


def test_each_text_is_read_for_itself() -> None:
    found = rows()
    assert found.inputs == [
        tuple(TOKENIZER(TABLE[name][row]).input_ids for name in ("one", "two")) for row in range(len(TABLE["x"]))
    ]
    assert found.segment_starts is None
    assert found.lengths.tolist() == [4, 5, 10]
    assert not found.empty.any()
    assert not found.shortened.any()


def test_each_text_stands_after_the_prompt() -> None:
    found = rows(prompt=True)
    joined = [TOKENIZER("q", TABLE[name][0], return_token_type_ids=True) for name in ("one", "two")]
    assert found.inputs[0] == tuple(pair.input_ids for pair in joined)
    assert found.segment_starts[0].tolist() == [pair.token_type_ids.index(1) for pair in joined]
    assert found.segment_starts.shape == (3, 2)
    assert found.shortened.tolist() == [False, False, True]
    assert max(map(len, found.inputs[2])) == 12


@pytest.mark.parametrize("prompt", [False, True])
def test_a_row_that_lacks_a_text_is_empty(prompt: bool) -> None:
    assert rows(prompt=prompt, two=["c", " ", None]).empty.tolist() == [False, True, True]
    assert rows(prompt=prompt, one=["", "a", float("nan")]).empty.tolist() == [True, False, True]


def test_rows_are_chosen_and_joined() -> None:
    found = rows(prompt=True)
    joined = EncodedRows.concat([found.take([2]), found.take(slice(0, 2))])
    assert joined.inputs == [found.inputs[place] for place in (2, 0, 1)]
    assert np.array_equal(joined.segment_starts, found.segment_starts[[2, 0, 1]])  # type: ignore[index]
    assert len(encoder().rows(TextInput.of("one", pair="two"), {"one": [], "two": []})) == 0


@pytest.mark.parametrize("prompt", [False, True])
def test_a_batch_has_two_texts_of_each_row(prompt: bool) -> None:
    schema = Schema.fit(TABLE, [Categorical("user")])
    text = TextInput.of("one", pair="two", prompt="x" if prompt else (), window=Head(12))
    labels = {"label": ["first", "tie", "second"]}
    with pytest.warns(AttribuneWarning, match="rows left out, without a label: 1 of 3"):
        data = encode(TABLE | labels, schema, TOKENIZER, text=text, label="label", task=Preference(), encoder=encoder())
    assert len(data) == 2, "a tie is left out"
    batch = CandidateCollator(TOKENIZER, schema)([data[row] for row in range(2)])
    longest = max(data["length"])
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 2, longest)
    assert batch["attribute_ids"].tolist() == [[1], [1]]
    assert batch["labels"].tolist() == [0, 1]
    for row, place in ((0, 0), (0, 1), (1, 0), (1, 1)):
        mask = batch["attention_mask"][row, place].bool()
        assert batch["input_ids"][row, place][mask].tolist() == data[row]["input_ids"][place]
        if prompt:
            expected = torch.arange(longest) >= data[row]["segment_start"][place]
            assert torch.equal(batch["token_type_ids"][row, place].bool(), expected & mask)
    assert ("token_type_ids" in batch) == prompt


def test_what_is_no_comparison_is_refused() -> None:
    with pytest.raises(DataError, match="a batch needs at least one row"):
        CandidateCollator(TOKENIZER, Schema([]))([])
    with pytest.raises(ConfigError, match=r"the task 'preference' compares texts: give encoder=model.row_encoder\(\)"):
        encode(TABLE, Schema([]), TOKENIZER, text="one", label=("one", "two"), task=Preference())
    with pytest.raises(ConfigError, match="a model that writes cannot read a pair of texts"):
        PromptEncoder(TOKENIZER, TextInput.of("one", pair="two", prompt="x"))
    with pytest.raises(DataError, match="half of a character pair"):
        rows(two=["c", "\ud83d", "d"])
