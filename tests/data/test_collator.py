from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from attribune.data.readers.base import Collator
from attribune.errors import ConfigError, DataError
from attribune.schema import Categorical, MultiLabel, Schema

SCHEMA = Schema.fit({"u": ["a"], "t": ["x|y"]}, [Categorical("u"), MultiLabel("t", separator="|")])


def row(ids: list[int], **more: Any) -> dict[str, Any]:
    return {"input_ids": ids, "attribute_ids": [1, 2, 0], "length": len(ids), **more}


def test_rows_are_padded_to_the_longest(tokenizer: Any) -> None:
    batch = Collator(tokenizer, SCHEMA)([row([5, 6, 7], labels=1), row([8], labels=-100)])
    assert set(batch) == {"input_ids", "attention_mask", "attribute_ids", "text_keys", "labels"}
    assert batch["input_ids"].tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["attribute_ids"].tolist() == [[1, 2, 0], [1, 2, 0]]
    assert batch["labels"].tolist() == [1, -100]
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())


def test_padding_stands_on_the_tokenizers_side_with_the_end_token(tokenizer_of: Any) -> None:
    batch = Collator(tokenizer_of("llama"), SCHEMA, pad_to_multiple_of=4)([row([7, 8]), row([9])])
    assert batch["input_ids"].tolist() == [[5, 5, 7, 8], [5, 5, 5, 9]]
    assert batch["attention_mask"].tolist() == [[0, 0, 1, 1], [0, 0, 0, 1]]
    assert "labels" not in batch


@pytest.mark.parametrize(
    ("labels", "dtype", "shape"),
    [
        ([1, 2], torch.int64, (2,)),
        ([1.0, 2.5], torch.float32, (2,)),
        ([np.float32(1), np.float32(2)], torch.float32, (2,)),
        ([[1, 0, -100], [2, 3, 4]], torch.int64, (2, 3)),
        ([[1.0, 0.0], [0.0, 1.0]], torch.float32, (2, 2)),
        ([torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])], torch.float32, (2, 2)),
    ],
)
def test_labels_keep_their_kind(tokenizer: Any, labels: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    batch = Collator(tokenizer, SCHEMA)([row([5], labels=label) for label in labels])
    assert batch["labels"].dtype == dtype
    assert batch["labels"].shape == shape


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one row"),
        ([row([5]), {"input_ids": [5], "attribute_ids": [1]}], r"1, 3 attribute ids, but the schema has 3 slots"),
        ([row([5], labels=1), row([5])], "1 of 2 rows have no labels"),
        ([row([5], labels=[1]), row([5], labels=[1, 2])], "different numbers of labels"),
        ([row([5], labels="good")], "'good' are not numbers"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tokenizer: Any, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Collator(tokenizer, SCHEMA)(rows)


def test_a_tokenizer_without_padding_and_end_is_refused(tokenizer_of: Any) -> None:
    with pytest.raises(ConfigError, match=r"set tokenizer\.pad_token"):
        Collator(tokenizer_of(pad_token=None), SCHEMA)
    with pytest.raises(ConfigError, match="pad_to_multiple_of=0"):
        Collator(tokenizer_of(), SCHEMA, pad_to_multiple_of=0)


def test_a_schema_without_attributes_gives_no_slots(tokenizer: Any) -> None:
    batch = Collator(tokenizer, Schema([]))([{"input_ids": [5], "attribute_ids": []}] * 2)
    assert batch["attribute_ids"].shape == (2, 0)


def test_it_travels_to_worker_processes(tokenizer: Any) -> None:
    collator = pickle.loads(pickle.dumps(Collator(tokenizer, SCHEMA)))
    assert collator([row([5])])["input_ids"].tolist() == [[5]]
