"""Low-rank adaptation (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"), for each value."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def own_low_rank(
    output: Float[Tensor, "B T out"],
    x: Float[Tensor, "B T in"],
    A: Float[Tensor, "r in"],
    B: Float[Tensor, "out r"],
    dA: Float[Tensor, "B r in"],
    dB: Float[Tensor, "B out r"],
    *,
    scale: float,
) -> Float[Tensor, "B T out"]:
    """Adapt a projection by the factors of each row: ``W x + b + scale · (B + dB_u) (A + dA_u) x``.

    Source: Hu et al. 2021 (LoRA), equation 3, for each value u.

    Args:
        output: ``W x + b``.
        dA: what the factor of each row has beyond that of all, and `dB` as well.
        scale: alpha / r.
    """
    return output + scale * (x @ (A + dA).mT @ (B + dB).mT)
