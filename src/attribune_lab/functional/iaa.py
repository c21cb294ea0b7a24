"""The interactive attributes attention model (Zhang, Wang and Zhang 2021, IAA)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attribune.functional.pooling import weighted_states


def bilinear_attention_pool(
    hidden: Float[Tensor, "B T H"],
    attention_mask: Shaped[Tensor, "B T"],
    a: Float[Tensor, "B Z"],
    W: Float[Tensor, "Z H"],
    W_a: Float[Tensor, "A H"],
    c: Float[Tensor, " A"],
    v: Float[Tensor, " A"],
) -> Float[Tensor, "B H"]:
    """Pool tokens by the products of their states and an attribute: ``b_t = tanh((a W) ⊙ h_t)``.

    The document vector is the sum of ``h_t + b_t``, weighted by the softmax of ``e_t = v^T tanh(W_a b_t + c)`` over the
    real tokens.

    Source: Zhang, Wang and Zhang 2021, as the authors' code has it.

    Args:
        attention_mask: 1 for real tokens; a row without one gives zeros.
    """
    b = torch.tanh((a @ W).unsqueeze(1) * hidden)
    return weighted_states(torch.tanh(b @ W_a.T + c) @ v, hidden + b, attention_mask)


def attribute_interaction(
    u: Float[Tensor, "B Z"],
    p: Float[Tensor, "B Z"],
    W_1: Float[Tensor, "Z Z"],
    c_1: Float[Tensor, " Z"],
    W_2: Float[Tensor, "Z Z"],
    c_2: Float[Tensor, " Z"],
) -> Float[Tensor, "B 2*Z"]:
    """Let two attributes act on each other: ``m = [(u W_1) ⊙ p + c_1; (p W_2) ⊙ u + c_2]``.

    Source: Zhang, Wang and Zhang 2021, as the authors' code has it.
    """
    return torch.cat([(u @ W_1) * p + c_1, (p @ W_2) * u + c_2], dim=-1)
