"""Personalised LayerNorm, its pooling, and structured text (Zhang et al. 2024, E2LN: "Improving Personalized...")."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attribune.functional.pooling import softmax_over_real


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


def shared_summaries(s: Shaped[Tensor, "BC ..."], *, C: int) -> Shaped[Tensor, "BC C ..."]:
    """Give each chunk what belongs to the summaries of all C chunks of its document, such as their keys.

    Source: Zhang et al. 2024 (E2LN), eq. 1-3, s as each chunk reads it.

    Args:
        s: of each chunk's own summary; the chunks of a document follow each other.
    """
    return s.view(-1, C, *s.shape[1:]).repeat_interleave(C, dim=0)


def structure_enhanced(
    h: Float[Tensor, "B heads T d"], s: Float[Tensor, "B N heads*d"]
) -> Float[Tensor, "B heads T+N d"]:
    """Put the keys or values of N extra states behind those of T tokens: ``[h; s]``, for each head.

    Attention over them is ``softmax(Q [K; K_s]^T / sqrt(d)) [V; V_s]``. The full-range matrix of the paper has zeros
    for the tokens of other chunks, which are rows of the batch here and so are not read.

    Source: Zhang et al. 2024 (E2LN), eq. 1-3 with structure-enhanced keys and values; Li and Liang 2021, the prefix.

    Args:
        h: keys, or values, of the tokens.
        s: those of the extra states, such as the summaries of chunks, with the heads side by side.
    """
    return torch.cat([h, s.view(*s.shape[:2], -1, h.shape[-1]).transpose(1, 2).to(h.dtype)], dim=2)
