"""The document vectors against loops over the mask."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_layers import assert_same, draw
from torch import Tensor

from attribune import functional


def slow_first(hidden: Tensor, mask: list[list[int]]) -> Tensor:
    return torch.stack([hidden[b, next(t for t, real in enumerate(row) if real)] for b, row in enumerate(mask)])


def slow_last(hidden: Tensor, mask: list[list[int]]) -> Tensor:
    return torch.stack([hidden[b, max(t for t, real in enumerate(row) if real)] for b, row in enumerate(mask)])


def slow_mean(hidden: Tensor, mask: list[list[int]]) -> Tensor:
    result = torch.zeros_like(hidden[:, 0])
    for b, row in enumerate(mask):
        for t, real in enumerate(row):
            if real:
                result[b] += hidden[b, t] / sum(row)
    return result


POOLINGS = [
    (functional.first_token, slow_first),
    (functional.last_token, slow_last),
    (functional.mean_tokens, slow_mean),
]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
@pytest.mark.parametrize(("fast", "slow"), POOLINGS)
def test_masks(fast, slow, dtype: torch.dtype) -> None:
    """Padding nowhere, on the right, on the left and on both sides, and in between."""
    mask = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [1, 0, 1, 0, 1], [0, 0, 0, 0, 1]]
    hidden = draw(6, 5, 3)
    assert_same(fast(hidden, torch.tensor(mask).to(dtype)), slow(hidden, mask))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 1), min_size=7, max_size=7).filter(any), min_size=1, max_size=4))
def test_any_mask(rows: list[list[int]]) -> None:
    hidden = draw(len(rows), 7, 2)
    for fast, slow in POOLINGS:
        assert_same(fast(hidden, torch.tensor(rows)), slow(hidden, rows))


def test_a_row_without_a_real_token_stays_finite() -> None:
    hidden, mask = torch.randn(2, 3, 5), torch.tensor([[0, 0, 0], [1, 0, 0]])
    assert functional.mean_tokens(hidden, mask)[0].tolist() == [0.0] * 5
    for fast, _ in POOLINGS:
        assert bool(fast(hidden, mask).isfinite().all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype(dtype: torch.dtype) -> None:
    hidden, mask = torch.randn(2, 301, 3, dtype=dtype), torch.ones(2, 301, dtype=torch.int64)
    for fast, slow in POOLINGS:
        result = fast(hidden, mask)
        assert result.dtype == dtype
        expected = slow(hidden.double(), mask.tolist())
        assert torch.allclose(result.double(), expected, atol=2e-2)


def test_gradients_reach_only_real_tokens() -> None:
    mask = torch.tensor([[0, 1, 1, 0]])
    for fast, expected in zip(
        (functional.first_token, functional.last_token, functional.mean_tokens),
        ([0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.5, 0.0]),
        strict=True,
    ):
        hidden = torch.randn(1, 4, 1, requires_grad=True)
        fast(hidden, mask).sum().backward()
        assert hidden.grad is not None
        assert hidden.grad.flatten().tolist() == expected


def test_the_mean_of_float16_does_not_overflow_and_padding_may_hold_anything() -> None:
    hidden = torch.full((1, 512, 1), 200.0, dtype=torch.float16)
    hidden[0, 500:] = torch.nan
    mask = (torch.arange(512) < 500).long().unsqueeze(0)
    assert functional.mean_tokens(hidden, mask).item() == 200.0
