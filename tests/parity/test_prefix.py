"""Prefixes against sequences put together by hand, row by row, in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from families import tiny_backbone
from slow_layers import exact_logits
from tiny_models import at_random, exactly, make_batch, make_model, row_vectors
from torch import Tensor

from attribune import functional
from attribune.methods import Prefix
from attribune.models.classifier import AttributeModel

TOLERANCE = 1e-10
MISTAKE = 1e-3


def slow_prefix(a: list[float], P_0: list[list[float]], Q: list[list[list[float]]]) -> list[list[float]]:
    """P_i = P_0i + sum_j Q_ij a_j, number by number."""
    return [
        [P_0[i][e] + sum(q * x for q, x in zip(Q[i][e], a, strict=True)) for e in range(len(P_0[i]))]
        for i in range(len(P_0))
    ]


def by_hand(model: AttributeModel, family: str, batch: dict[str, Tensor]) -> Tensor:
    """The logits of a plain backbone that is given a sequence of embeddings for each row, without padding."""
    backbone, method = exactly(tiny_backbone(family)), model.method
    words, P_0, Q = backbone.get_input_embeddings().weight, method.P_0.tolist(), method.Q.tolist()
    logits = []
    vectors = row_vectors(list(method.tables), model.slots, batch["attribute_ids"])
    for ids, real, of_attributes in zip(batch["input_ids"], batch["attention_mask"], vectors, strict=True):
        prefix = slow_prefix([number for vector in of_attributes for number in vector], P_0, Q)
        text = words[ids[real.bool()]].tolist()
        with torch.no_grad():
            given = torch.tensor([[*prefix, *text]], dtype=torch.float64)
            states = backbone(inputs_embeds=given).last_hidden_state[0, len(prefix) :]
        document = {"gpt2": states[-1], "t5": states.mean(dim=0)}.get(family, states[0])
        logits.append(model.head(document).detach())
    return torch.stack(logits)


@pytest.mark.parametrize(("family", "attributes"), [("bert", 2), ("electra", 4), ("gpt2", 2), ("t5", 1)])
def test_the_model(family: str, attributes: int) -> None:
    model = make_model(family, Prefix(length=3, vector_size=5), attributes=attributes)
    at_random(model.method, size=0.5)
    exactly(model)
    batch = make_batch(attributes)
    assert float((exact_logits(model, batch) - by_hand(model, family, batch)).detach().abs().max()) < TOLERANCE


def test_the_function_and_its_gradients() -> None:
    a, P_0, Q = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 5), (3, 7), (3, 7, 5)))
    found = functional.soft_prefix(a, P_0, Q)
    expected = [slow_prefix(row, P_0.tolist(), Q.tolist()) for row in a.tolist()]
    assert float((found - torch.tensor(expected, dtype=torch.float64)).detach().abs().max()) < TOLERANCE
    assert torch.autograd.gradcheck(functional.soft_prefix, (a, P_0, Q))


def test_it_starts_with_one_prefix_for_all_rows() -> None:
    model, batch = make_model("bert", Prefix()), make_batch(2)
    nobody = {**batch, "attribute_ids": torch.zeros_like(batch["attribute_ids"])}
    assert torch.equal(model(**batch).logits, model(**nobody).logits)
    assert model.method.extra_positions == 1


RIGHT = functional.soft_prefix
MISTAKES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "backwards": lambda a, P_0, Q: RIGHT(a, P_0, Q).flip(1),
    "vectors of other rows": lambda a, P_0, Q: RIGHT(a.roll(1, 0), P_0, Q),
    "no shared part": lambda a, P_0, Q: RIGHT(a, torch.zeros_like(P_0), Q),
    "one map for all": lambda a, P_0, Q: RIGHT(a, P_0, Q[:1].expand_as(Q)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = make_model("bert", Prefix(length=3, vector_size=5)), make_batch(2)
    at_random(model.method, size=0.5)
    exactly(model)
    monkeypatch.setattr(functional, "soft_prefix", MISTAKES[mistake])
    assert float((exact_logits(model, batch) - by_hand(model, "bert", batch)).detach().abs().max()) > MISTAKE
