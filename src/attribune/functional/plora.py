"""Personalised low-rank adaptation (Zhang et al. 2024, "Personalized LoRA for Human-Centered Text Understanding")."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def personalised_low_rank(
    output: Float[Tensor, "B T out"],
    x: Float[Tensor, "B T in"],
    a: Float[Tensor, "B MZ"],
    A: Float[Tensor, "r in"],
    P: Float[Tensor, "r MZ"],
    B: Float[Tensor, "out r"],
    *,
    scale: float,
) -> Float[Tensor, "B T out"]:
    """Adapt a projection by the attributes: ``W x + b + scale · B (A x + sum_j P_j a_j)``.

    Source: Zhang et al. 2024 (PLoRA), the personalised low-rank adaptation.

    Args:
        output: ``W x + b``.
        P: the P_j side by side.
        scale: alpha / r.
    """
    return output + scale * ((x @ A.T + (a @ P.T).unsqueeze(1)) @ B.T)
