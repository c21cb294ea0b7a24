"""Low-rank adaptation whose inner features the attributes scale and shift (after IA3, Liu et al. 2022, and PLoRA)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def modulated_low_rank(
    output: Float[Tensor, "B T out"],
    x: Float[Tensor, "B T in"],
    a: Float[Tensor, "B MZ"],
    A: Float[Tensor, "r in"],
    M: Float[Tensor, "r MZ"],
    P: Float[Tensor, "r MZ"],
    B: Float[Tensor, "out r"],
    *,
    scale: float,
) -> Float[Tensor, "B T out"]:
    """Adapt a projection: ``W x + b + scale · B ((1 + sum_j M_j a_j) ⊙ (A x) + sum_j P_j a_j)``.

    Source: Zhang et al. 2024 (PLoRA), which is the case M = 0, with the scaled activations of Liu et al. 2022 (IA3).

    Args:
        output: ``W x + b``.
        M: the M_j side by side.
        P: the P_j side by side.
        scale: alpha / r.
    """
    inner = (x @ A.T) * (1 + a @ M.T).unsqueeze(1) + (a @ P.T).unsqueeze(1)
    return output + scale * (inner @ B.T)
