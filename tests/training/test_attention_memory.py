"""Attention that is computed again keeps less for the backward pass, and gives the same gradients."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention

from attribune.training.trainer import RecomputedAttention

B, HEADS, T, D = 2, 3, 40, 8


def _gradients(context: AbstractContextManager[object], *, dropout: float) -> tuple[list[Tensor], int]:
    """Return the gradients of query, key and value, and the elements that the forward pass kept."""
    torch.manual_seed(0)
    states = [torch.randn(B, HEADS, T, D, requires_grad=True) for _ in range(3)]
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), context:
        output = scaled_dot_product_attention(*states, attn_mask=torch.ones(T, T).tril().bool(), dropout_p=dropout)
    return list(torch.autograd.grad(output.square().sum(), states)), sum(kept)


def test_gradients_are_the_same_and_less_is_kept() -> None:
    expected, much = _gradients(nullcontext(), dropout=0.5)
    found, little = _gradients(RecomputedAttention(), dropout=0.5)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert much > 2 * B * HEADS * T * T > little


def test_attention_without_dropout_is_left_alone() -> None:
    expected, kept = _gradients(nullcontext(), dropout=0.0)
    found, same = _gradients(RecomputedAttention(), dropout=0.0)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert same == kept
