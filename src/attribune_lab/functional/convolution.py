"""Convolutions over words (Kim 2014; Tang, Qin and Liu 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn.functional import conv1d, pad


class Filters(NamedTuple):
    """The filters of one width: F maps of k words side by side."""

    W: Float[Tensor, "F k E"]
    b: Float[Tensor, " F"]


def convolved_words(
    x: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    filters: Sequence[Filters],
    *,
    centred: bool = False,
) -> Float[Tensor, "B T features"]:
    """Compute ``ReLU(W_k [x_t; ...; x_{t+k-1}] + b_k)`` for each width k, side by side.

    With `centred` the window of k words has x_t in its middle (the left one of two), and zeros stand for words beyond
    the text (Amplayo et al. 2018, HCSC). Else the value is 0 where a window would reach beyond the text, and a text
    shorter than k words is padded to k, so that the largest value of a feature over the words is that over the windows.

    Source: Kim 2014, eq. 2-3.

    Args:
        attention_mask: 1 for real words, which come first.
    """
    if centred:
        real = attention_mask.unsqueeze(-1).to(x.dtype)
        return torch.cat([_windows(x, attention_mask, one, centred=True).relu() * real for one in filters], dim=-1)
    return torch.cat([_windows(x, attention_mask, one).relu() * _real(attention_mask, one) for one in filters], dim=-1)


def averaged_windows(
    x: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    filters: Sequence[Filters],
    *,
    tanh_before_mean: bool = False,
) -> Float[Tensor, "B F"]:
    """Compute the mean over the widths k of ``tanh(mean_t (W_k [x_t; ...; x_{t+k-1}] + b_k))``; zeros without words.

    Source: Tang, Qin and Liu 2015, the document vector.

    Args:
        attention_mask: 1 for real words, which come first.
        tanh_before_mean: whether tanh is taken of each window, and not of their mean.
    """
    outputs = []
    for one in filters:
        real = _real(attention_mask, one).to(x.dtype)
        windows = _windows(x, attention_mask, one)
        mean = ((windows.tanh() if tanh_before_mean else windows) * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        outputs.append(mean if tanh_before_mean else mean.tanh())
    return torch.stack(outputs).mean(dim=0) * attention_mask.any(dim=1, keepdim=True).to(x.dtype)


def _windows(x: Tensor, attention_mask: Tensor, filters: Filters, *, centred: bool = False) -> Float[Tensor, "B T F"]:
    """Return the filters' maps of the words from each one on, or around it; zeros stand for words beyond the text."""
    words = (x * attention_mask.unsqueeze(-1).to(x.dtype)).transpose(1, 2)
    width = filters.W.shape[1]
    before = (width - 1) // 2 if centred else 0
    return conv1d(pad(words, (before, width - 1 - before)), filters.W.transpose(1, 2), filters.b).transpose(1, 2)


def _real(attention_mask: Tensor, filters: Filters) -> Bool[Tensor, "B T 1"]:
    """Return where a window lies within the text, or begins a shorter one."""
    words = attention_mask.sum(dim=1, keepdim=True)
    places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    return ((places <= (words - filters.W.shape[1]).clamp(min=0)) & (words > 0)).unsqueeze(-1)
