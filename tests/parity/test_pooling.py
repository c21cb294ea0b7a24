"""The document vectors against loops over the mask."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attribune import functional

MASKS = {
    "all real": [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
    "padding right": [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]],
    "padding left": [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]],
    "padding on both sides": [[0, 1, 1, 0, 0], [0, 0, 1, 0, 0]],
    "a hole": [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]],
}


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


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
@pytest.mark.parametrize(("fast", "slow"), POOLINGS)
def test_masks(fast, slow, dtype: torch.dtype, mask: list[list[int]]) -> None:
    hidden = torch.randn(2, 5, 3, dtype=torch.float64)
    result = fast(hidden, torch.tensor(mask).to(dtype))
    assert result.shape == (2, 3)
    assert float((result - slow(hidden, mask)).abs().max()) < 1e-10


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 1), min_size=7, max_size=7).filter(any), min_size=1, max_size=4))
def test_any_mask(rows: list[list[int]]) -> None:
    hidden = torch.randn(len(rows), 7, 2, dtype=torch.float64)
    for fast, slow in POOLINGS:
        assert float((fast(hidden, torch.tensor(rows)) - slow(hidden, rows)).abs().max()) < 1e-10


def test_hand_computed() -> None:
    hidden = torch.tensor([[[1.0, 10.0], [3.0, 20.0], [100.0, 100.0]], [[100.0, 100.0], [5.0, 7.0], [9.0, 1.0]]])
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])
    assert functional.first_token(hidden, mask).tolist() == [[1.0, 10.0], [5.0, 7.0]]
    assert functional.last_token(hidden, mask).tolist() == [[3.0, 20.0], [9.0, 1.0]]
    assert functional.mean_tokens(hidden, mask).tolist() == [[2.0, 15.0], [7.0, 4.0]]


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
