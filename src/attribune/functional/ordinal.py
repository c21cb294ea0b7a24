"""Ordered answers with cut points (McCullagh 1980, "Regression Models for Ordinal Data")."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def cut_points(first: Float[Tensor, "1"], delta: Float[Tensor, " K2"]) -> Float[Tensor, " K1"]:
    """Return the cut points between ``K`` answers, in order: ``θ_{k+1} = θ_k + softplus(δ_k)``.

    Source: McCullagh 1980, the cut points of the proportional odds model.

    Args:
        first: θ_1.
        delta: δ_1 .. δ_{K-2}, one less than there are cut points.
    """
    return torch.cat([first, first + functional.softplus(delta).cumsum(0)])


def ordinal_log_probabilities(
    score: Float[Tensor, " B"],
    first: Float[Tensor, "1"],
    delta: Float[Tensor, " K2"],
    *,
    a: Float[Tensor, " B"] | None = None,
    b: Float[Tensor, " B"] | None = None,
) -> Float[Tensor, "B K"]:
    """Return the logarithm of the probability of each answer, where ``P(y <= k) = σ(exp(a) (θ_k + b - score))``.

    That of the k-th answer, ``σ(z_k) - σ(z_{k-1})``, is ``σ(z_k) σ(-z_{k-1}) (1 - exp(-(z_k - z_{k-1})))``, without
    cancellation, and the distance of two cut points is known without a difference.

    Source: McCullagh 1980, the proportional odds model; Samejima 1969, the graded response model.

    Args:
        score: one number per row; a higher one makes higher answers more likely.
        first: θ_1; the other cut points are those of `cut_points`.
        a: logarithm of the factor by which a row's judge separates answers; 0 by default.
        b: the shift of all cut points by a row's judge; 0 by default.
    """
    rows, scale = score.unsqueeze(1), 1.0 if a is None else a.exp().unsqueeze(1)
    z = scale * (cut_points(first, delta) + (0.0 if b is None else b.unsqueeze(1)) - rows)
    gap = scale * functional.softplus(delta)
    below, above = functional.logsigmoid(z), functional.logsigmoid(-z)
    between = below[:, 1:] + above[:, :-1] + torch.log(-torch.expm1(-gap))
    return torch.cat([below[:, :1], between, above[:, -1:]], dim=1)
