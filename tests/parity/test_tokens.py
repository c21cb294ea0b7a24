"""Control tokens against sequences put together by hand, row by row, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from families import tiny_backbone
from slow_layers import assert_apart, assert_same, draw
from tiny_models import NUMBERS, at_random, exactly, make_batch, make_model, recorded
from torch import Tensor

from attribune import functional
from attribune.methods import Tokens
from attribune.methods.condition import Slots
from attribune.models.model import AttributeModel

Row = list[list[float]]


# The definition, slowly


def start_of(mask: list[int]) -> int:
    """Where the text begins: padding may stand before it."""
    return next((t for t, real in enumerate(mask) if real), 0)


def insert(text: list[Any], values: list[Any], at: int) -> list[Any]:
    return [*text[:at], *values, *text[at:]]


def slow_tokens(
    embeddings: Tensor, mask: Tensor, values: Tensor, present: Tensor, *, after_first: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Put the values into each row's list of tokens, and find every token of the text again by its index."""
    states, masks, places = [], [], []
    for row, real in enumerate(mask.tolist()):
        at = start_of(real) + (1 if after_first else 0)
        tokens = insert([("text", t) for t in range(len(real))], [("value", k) for k in range(values.shape[1])], at)
        numbers = {"text": embeddings[row].tolist(), "value": values[row].tolist()}
        counts = {"text": real, "value": [int(x) for x in present[row].tolist()]}
        states.append([numbers[kind][i] for kind, i in tokens])
        masks.append([counts[kind][i] for kind, i in tokens])
        places.append([tokens.index(("text", t)) for t in range(len(real))])
    return torch.tensor(states, dtype=torch.float64), torch.tensor(masks), torch.tensor(places)


def value_vectors(tables: list[Tensor], slots: tuple[Slots, ...], ids: list[int]) -> tuple[Row, list[int]]:
    """One vector for every slot, in schema order, and which of them hold a value."""
    vectors, counts = [], []
    for table, attribute in zip(tables, slots, strict=True):
        for value in ids[attribute.start : attribute.start + attribute.count]:
            vectors.append(table[value].tolist())
            counts.append(int(value != 0))
    return vectors, counts


def by_hand(model: AttributeModel, family: str, batch: dict[str, Tensor], *, mistake: str = "") -> Tensor:
    """The logits of a plain backbone that is given a sequence of embeddings for each row.

    Mistakes: ``at_front``, values come before the first token; ``unmasked``, missing ones count; ``backwards``, they
    come in the wrong order; ``first_position``, the state there stands for the text.
    """
    backbone = exactly(tiny_backbone(family))
    words = backbone.get_input_embeddings().weight
    tables = list(model.method.tables)
    logits = []
    for ids, real, attributes in zip(*(batch[key].tolist() for key in batch), strict=True):
        vectors, counts = value_vectors(tables, model.slots, attributes)
        if mistake == "unmasked":
            counts = [1 for _ in counts]
        elif mistake == "backwards":
            vectors, counts = vectors[::-1], counts[::-1]
        at = start_of(real) + (1 if family in ("bert", "electra", "llama") and mistake != "at_front" else 0)
        sequence = insert([words[i].tolist() for i in ids], vectors, at)
        mask = insert(real, counts, at)
        is_text = insert(real, [0 for _ in counts], at)
        with torch.no_grad():
            states = backbone(
                inputs_embeds=torch.tensor([sequence], dtype=torch.float64), attention_mask=torch.tensor([mask])
            ).last_hidden_state[0]
        mine = [states[t].tolist() for t, text in enumerate(is_text) if text]
        if family in ("gpt2", "llama"):
            document = mine[-1]
        elif family == "t5":
            document = [sum(numbers) / len(mine) for numbers in zip(*mine, strict=True)]
        else:
            document = states[0].tolist() if mistake == "first_position" else mine[0]
        W, b = model.head.weight.tolist(), model.head.bias.tolist()
        logits.append([sum(w * x for w, x in zip(W[k], document, strict=True)) + b[k] for k in range(len(b))])
    return torch.tensor(logits, dtype=torch.float64)


MASK = torch.tensor(
    [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]
)


@pytest.mark.parametrize("after_first", [True, False])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 6])
def test_function(n: int, after_first: bool) -> None:
    """With as many values as tokens or rows among the sizes, which would let a wrong index pass."""
    embeddings, values = draw(6, 5, 3), draw(6, n, 3)
    present = torch.randint(0, 2, (6, n))
    present[0], present[1] = 1, 0
    for kind in (torch.int64, torch.bool):
        found = functional.control_tokens(embeddings, MASK, values, present.to(kind), after_first=after_first)
        expected = slow_tokens(embeddings, MASK, values, present, after_first=after_first)
        for mine, theirs in zip(found, expected, strict=True):
            assert mine.dtype == theirs.dtype
            assert torch.equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize(
    ("family", "M"), [*(("bert", M) for M in NUMBERS), *((family, 2) for family in ("electra", "gpt2", "llama", "t5"))]
)
def test_whole_model(family: str, M: int, padding: str) -> None:
    """Embeddings of another size than the states; texts without a first special token; other document vectors."""
    model = exactly(make_model(family, Tokens(), attributes=M))
    at_random(model.method)
    batch = make_batch(M, padding=padding)
    assert model.method.tables[0].shape[1] == (31 if family == "electra" else 48)
    with recorded(model.head) as found:
        model(**batch)
    assert_same(found[0], by_hand(model, family, batch))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["at_front", "unmasked", "backwards", "first_position"])
def test_planted_mistakes_are_seen(mistake: str) -> None:
    model, batch = exactly(make_model("bert", Tokens(), attributes=4)), make_batch(4, padding="left")
    at_random(model.method)
    with recorded(model.head) as found:
        model(**batch)
    assert_apart(found[0], by_hand(model, "bert", batch, mistake=mistake))


def test_the_values_take_positions_and_count_in_the_length() -> None:
    plain = make_model("bert", Tokens(), attributes=1)
    assert plain.longest_text() == 67 - 3
    assert make_model("bert", Tokens(), attributes=4).longest_text() == 67 - 7


def test_a_hidden_attribute_is_masked_in_training() -> None:
    """Attribute dropout leaves the places of a hidden attribute, without what stood there."""
    model = make_model("bert", Tokens(attribute_dropout=0.5), attributes=2).double().train()
    at_random(model.method)
    batch = make_batch(2)
    ids = batch["attribute_ids"]
    hide_tags = torch.tensor([[0.4, 0.6], [0.6, 0.6], [0.5, 0.4], [0.4, 0.6]])
    condition = model.method.condition(ids, 4, hide_tags)
    embedded = model.method.embed(batch["input_ids"], batch["attention_mask"], condition, model.get_input_embeddings())
    assert embedded is not None
    expected = [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    assert embedded.attention_mask[:, 1:5].tolist() == expected
    assert torch.equal(embedded.attention_mask[:, 0], batch["attention_mask"][:, 0])
    assert torch.equal(embedded.attention_mask[:, 5:], batch["attention_mask"][:, 1:])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "mpnet"])
def test_positions_that_leave_padding_out_do_not_depend_on_its_side(family: str) -> None:
    model = exactly(make_model(family, Tokens()))
    at_random(model.method)
    right = make_batch(2)
    left = {name: value.clone() for name, value in right.items()}
    for row in range(len(left["input_ids"])):
        length = int(left["attention_mask"][row].sum())
        for name in ("input_ids", "attention_mask"):
            left[name][row] = left[name][row].roll(left[name].shape[1] - length)
    assert not torch.equal(left["attention_mask"], right["attention_mask"])
    torch.testing.assert_close(model(**left).logits, model(**right).logits, rtol=0, atol=1e-6)
