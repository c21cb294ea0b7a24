"""Personalised LayerNorm and its pooling (Zhang et al. 2024, E2LN: "Improving Personalized Sentiment...")."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attribune.functional.pooling import softmax_over_real

__all__ = ["layer_norm_pool", "personalised_norm"]


def personalised_norm(
    normed: Float[Tensor, "B T H"],
    bias: Float[Tensor, " H"] | None,
    g: Float[Tensor, "B H"],
    b: Float[Tensor, "B H"],
) -> Float[Tensor, "B T H"]:
    """Personalise a LayerNorm: ``LN(x; (1 + g) ⊙ gain, b + bias)``, computed from the plain norm's output.

    ``LN(x; gain, bias) - bias`` is the normalised state times the gain, so that ``normed + g (normed - bias) + b`` is
    the personalised norm, and exactly the plain one where g and b are zero. An RMSNorm has no bias.

    Source: Zhang et al. 2024 (E2LN), eq. 4-6.

    Args:
        normed: ``LN(x; gain, bias)``.
        g: the change of each row's gain.
        b: the change of each row's bias.
    """
    scaled = normed if bias is None else normed - bias
    return normed + g.unsqueeze(1) * scaled + b.unsqueeze(1)


def layer_norm_pool(normed: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B H"]:
    """Pool tokens by LayerNorm-based attention, computed from the norm's output.

    ``score_w = ((f_w - mean) / std) · gain`` is the sum of ``LN(f_w) - bias`` over its features, and the bias, the same
    for every token, cancels in the softmax over the real tokens, which weights the sum of ``LN(f_w)``.

    Source: Zhang et al. 2024 (E2LN), eq. 8.

    Args:
        normed: ``LN(f; gain, bias)``.
        attention_mask: 1 for real tokens; a row without one gives zeros.
    """
    exact = normed.to(torch.promote_types(normed.dtype, torch.float32))
    return (softmax_over_real(exact.sum(dim=-1), attention_mask).unsqueeze(1) @ exact).squeeze(1).to(normed.dtype)
