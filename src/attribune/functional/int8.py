"""Linear maps with weights and states in int8, and sums in int32 (dynamic quantisation, as in Jacob et al. 2018, 2.1).

A weight has one scale for each output; states have a scale and a zero point for each token, which are found while the
map runs. So the result for a token does not depend on the others of its batch.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["int8_linear", "int8_states", "int8_weight"]

_NARROWEST = 1e-5  # of a token's states, relative to the largest: below it all of them count as the same number


def int8_weight(W: Float[Tensor, "N K"]) -> tuple[Int[Tensor, "N K"], Float[Tensor, " K"]]:
    """Round a weight to int8 with a scale for each output, ``W ≈ q s``.

    Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    Inference", eq. 1 with zero point 0.
    """
    s = W.abs().amax(dim=0).clamp(min=torch.finfo(W.dtype).tiny) / 127
    return (W / s).round_().to(torch.int8), s


def int8_states(
    x: Float[Tensor, "rows N"],
) -> tuple[Int[Tensor, "rows N"], Float[Tensor, "rows 1"], Float[Tensor, "rows 1"]]:
    """Round states to int8 between the least and the largest of each row: q, s and m with ``x ≈ q s + m``.

    Source: Jacob et al. 2018, eq. 1, with a zero point that need not be whole.
    """
    low, high = x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)
    least = (_NARROWEST * torch.maximum(-low, high)).clamp_(min=torch.finfo(x.dtype).tiny * 2**10)
    s = torch.maximum(high - low, least) / 255
    m = low + 128 * s
    return torch.addcmul(-m / s, x, 1 / s).round_().to(torch.int8), s, m


def int8_linear(
    x: Float[Tensor, "*rows N"],
    q: Int[Tensor, "N K"],
    s: Float[Tensor, " K"],
    sums: Float[Tensor, " K"],
    b: Float[Tensor, " K"],
) -> Float[Tensor, "*rows K"]:
    """Compute ``x W + b`` with the weight and the states in int8: ``s_x (q_x q) s + m_x sums + b``.

    Source: Jacob et al. 2018, eq. 7.

    Args:
        q: the weight, of `int8_weight`.
        s: its scales.
        sums: of the weights of each output, ``s sum_n q``.
    """
    q_x, s_x, m_x = int8_states(x.reshape(-1, x.shape[-1]))
    product = torch._int_mm(q_x, q) * s
    return torch.addcmul(torch.addcmul(b, m_x, sums), product, s_x).view(*x.shape[:-1], len(s))
