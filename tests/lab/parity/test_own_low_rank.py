"""LoRA with factors of each value's own, against loops written from Hu et al. 2021 (equation 3), in float64."""

from __future__ import annotations

import pytest
import torch
from tiny_models import at_random, exactly, make_batch, make_model
from torch import Tensor

from attribune_lab import functional
from attribune_lab.methods.one_per_value import OnePerValue, OnePerValueMethod

TOLERANCE = 1e-10
MISTAKE = 1e-3


def slow(output: Tensor, x: Tensor, A: Tensor, B: Tensor, dA: Tensor, dB: Tensor, *, scale: float) -> Tensor:
    """h = W x + scale · B_u A_u x, one number after the other."""
    found = output.clone()
    for row in range(x.shape[0]):
        for token in range(x.shape[1]):
            for out in range(B.shape[0]):
                for r in range(A.shape[0]):
                    inner = sum(float(A[r, i] + dA[row, r, i]) * float(x[row, token, i]) for i in range(x.shape[2]))
                    found[row, token, out] += scale * float(B[out, r] + dB[row, out, r]) * inner
    return found


def numbers() -> tuple[Tensor, ...]:
    torch.manual_seed(5)
    shapes = [(3, 5, 11), (3, 5, 7), (2, 7), (11, 2), (3, 2, 7), (3, 11, 2)]
    return tuple(torch.randn(*shape, dtype=torch.float64) for shape in shapes)


def test_the_function_is_the_loop() -> None:
    output, x, A, B, dA, dB = numbers()
    expected = slow(output, x, A, B, dA, dB, scale=1.7)
    found = functional.own_low_rank(output, x, A, B, dA, dB, scale=1.7)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
    planted = functional.own_low_rank(output, x, A, B, dA.roll(1, 0), dB, scale=1.7)
    assert float((planted - expected).abs().max()) > MISTAKE


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_model_has_the_factors_of_each_row(family: str) -> None:
    """Each row of a batch is scored as by a model whose factors of all are those of its value."""
    model = make_model(family, OnePerValue(rank=3, attribute="user")).eval()
    method = model.method
    assert isinstance(method, OnePerValueMethod)
    at_random(method)
    exactly(model)
    for site in method.own_sites:
        site.dA.data[0] = site.dB.data[0] = 0
    batch = make_batch(2)
    ids = batch["attribute_ids"][:, method.attribute.columns][:, 0]
    assert len(set(ids.tolist())) > 2
    with torch.no_grad():
        together = model(**batch).logits
        for row, value in enumerate(ids.tolist()):
            before = [(site.A.clone(), site.B.clone()) for site in method.own_sites]
            for site in method.own_sites:
                A, B = site.factors_of(value)
                site.A.copy_(A)
                site.B.copy_(B)
            one = {name: x[row : row + 1] for name, x in batch.items()}
            alone = model(**{**one, "attribute_ids": torch.zeros_like(one["attribute_ids"])}).logits
            torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=TOLERANCE)
            for site, (A, B) in zip(method.own_sites, before, strict=True):
                site.A.copy_(A)
                site.B.copy_(B)
    model.train()
    hidden = model.condition(batch["attribute_ids"], rows=len(ids)).ids
    assert hidden is not None
    assert not hidden.any()
