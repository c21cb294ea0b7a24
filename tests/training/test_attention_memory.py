"""Attention in training: its dropout, and what the backward pass keeps of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention
from trained_runs import TrainedRuns

from attribune import AttributeModel
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


@pytest.mark.parametrize(
    ("method", "more", "rate"),
    [
        ("injector", [], 0.0),
        ("injector", ["--set", "backbone.attention_dropout=null"], 0.1),
        ("injector", ["--set", "backbone.attention_dropout=0.3"], 0.3),
        ("none", [], 0.1),
    ],
)
def test_a_frozen_backbone_has_no_attention_dropout(
    trained_runs: TrainedRuns, method: str, more: list[str], rate: float
) -> None:
    """Unless a recipe asks for it; a backbone that is tuned has that of its pretraining."""
    model = AttributeModel.from_pretrained(trained_runs(method, *more) / "model")
    assert model.config.text_config.attention_probs_dropout_prob == rate
