"""Recurrent and convolutional layers over words against loops written from their equations, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from slow_layers import random_lstm, slow_lstm
from torch import Tensor, nn

from attribune import functional
from attribune.functional.convolution import Filters
from attribune.functional.recurrent import LSTMWeights

TOLERANCE = 1e-10
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
SCATTERED = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])


def slow_direction(x: Tensor, mask: Tensor, own: LSTMWeights, *, reverse: bool, padding: str) -> Tensor:
    H = own.W_hh.shape[1]
    result = torch.zeros(*x.shape[:2], H, dtype=torch.float64)
    for row in range(len(x)):
        places = [t for t in range(x.shape[1]) if padding == "run" or mask[row, t]]
        if reverse:
            places = places[::-1]
        for place, state in zip(places, slow_lstm([x[row, t].tolist() for t in places], own), strict=True):
            result[row, place] = torch.tensor(state, dtype=torch.float64)
    return result


@pytest.mark.parametrize("padding", ["packed", "run"])
@pytest.mark.parametrize("mask", [MASK, SCATTERED], ids=["right", "scattered"])
@pytest.mark.parametrize(("E", "H"), [(5, 3), (2, 4)])
def test_both_directions(E: int, H: int, mask: Tensor, padding: Any) -> None:
    x, forward, backward = torch.randn(4, 6, E, dtype=torch.float64), random_lstm(E, H), random_lstm(E, H)
    found = functional.bilstm(x, mask, forward, backward, padding=padding)
    expected = [
        slow_direction(x, mask, own, reverse=reverse, padding=padding)
        for own, reverse in ((forward, False), (backward, True))
    ]
    assert found.shape == (4, 6, 2 * H)
    assert float((found - torch.cat(expected, dim=-1)).abs().max()) < TOLERANCE


def test_it_is_that_of_torch() -> None:
    own = nn.LSTM(5, 3, batch_first=True).double()
    parameters = dict(own.named_parameters())
    named = LSTMWeights(*(parameters[f"{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
    x = torch.randn(2, 7, 5, dtype=torch.float64)
    assert torch.equal(functional.lstm(x, torch.ones(2, 7), named), own(x)[0])


def test_padding_changes_nothing_that_is_real() -> None:
    forward, backward = random_lstm(5, 3), random_lstm(5, 3)
    x = torch.randn(4, 6, 5, dtype=torch.float64)
    found = functional.bilstm(x, MASK, forward, backward)
    wide = torch.cat([x, 9 * torch.randn(4, 3, 5, dtype=torch.float64)], dim=1)
    again = functional.bilstm(wide, torch.nn.functional.pad(MASK, (0, 3)), forward, backward)
    assert torch.equal(again[:, :6], found)
    assert not again[:, 6:].any()
    assert not found[MASK == 0].any()


def test_gradients_reach_every_weight_and_no_padding() -> None:
    own = LSTMWeights(*(one.requires_grad_() for one in random_lstm(5, 3)))
    x = torch.randn(4, 6, 5, dtype=torch.float64, requires_grad=True)
    functional.lstm(x, SCATTERED, own, reverse=True).sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in own)
    assert x.grad is not None
    assert torch.equal(x.grad.abs().sum(dim=-1) > 0, SCATTERED.bool())


def filters(*widths: int, E: int = 5, F: int = 4) -> list[Filters]:
    return [
        Filters(torch.randn(F, width, E, dtype=torch.float64), torch.randn(F, dtype=torch.float64)) for width in widths
    ]


def slow_windows(words: Tensor, one: Filters) -> list[list[float]]:
    """The maps of all windows of a text, which is padded to the width of the filter."""
    width = one.W.shape[1]
    padded = words.tolist() + [[0.0] * words.shape[1]] * max(0, width - len(words))

    def window(t: int, f: int) -> float:
        pairs = [pair for i in range(width) for pair in zip(one.W[f, i].tolist(), padded[t + i], strict=True)]
        return float(one.b[f]) + sum(w * x for w, x in pairs)

    return [[window(t, f) for f in range(len(one.b))] for t in range(len(padded) - width + 1)]


@pytest.mark.parametrize("widths", [(3, 4, 5), (1,), (2, 7)])
def test_convolved_words(widths: tuple[int, ...]) -> None:
    """Their largest value over the words is that over the windows (Kim 2014)."""
    x, sets = torch.randn(4, 6, 5, dtype=torch.float64), filters(*widths)
    found = functional.max_tokens(functional.convolved_words(x, MASK, sets), MASK)
    for row in range(4):
        words = x[row, : int(MASK[row].sum())]
        expected = [
            max(max(0.0, window[f]) for window in slow_windows(words, one)) if len(words) else 0.0
            for one in sets
            for f in range(4)
        ]
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("tanh_before_mean", [False, True])
def test_averaged_windows(tanh_before_mean: bool) -> None:
    """The document vector of Tang, Qin and Liu 2015."""
    x, sets = torch.randn(4, 6, 5, dtype=torch.float64), filters(1, 2, 3)
    found = functional.averaged_windows(x, MASK, sets, tanh_before_mean=tanh_before_mean)
    for row in range(3):
        outputs = []
        for one in sets:
            windows = slow_windows(x[row, : int(MASK[row].sum())], one)
            if tanh_before_mean:
                windows = [[math.tanh(value) for value in window] for window in windows]
            means = [sum(window[f] for window in windows) / len(windows) for f in range(4)]
            outputs.append(means if tanh_before_mean else [math.tanh(mean) for mean in means])
        expected = [sum(column) / 3 for column in zip(*outputs, strict=True)]
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)
    assert not found[3].any()


@pytest.mark.parametrize("name", ["convolved_words", "averaged_windows"])
def test_words_beyond_the_text_are_not_read(name: str) -> None:
    sets, function = filters(2, 3), getattr(functional, name)
    x = torch.randn(4, 6, 5, dtype=torch.float64)
    other = torch.where(MASK.bool().unsqueeze(-1), x, 9 * torch.randn_like(x))
    assert torch.equal(function(x, MASK, sets), function(other, MASK, sets))
