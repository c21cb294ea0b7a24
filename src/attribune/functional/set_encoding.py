"""Vectors of new values from their labelled rows, without gradients."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["residual_features", "set_encoding"]


def residual_features(
    h: Float[Tensor, "*n H"],
    y: Float[Tensor, "*n C"],
    r: Float[Tensor, "*n C"],
    *,
    E: Float[Tensor, "C Y"],
    W_1: Float[Tensor, "X G"],
    b_1: Float[Tensor, " G"],
    W_2: Float[Tensor, "C G D"],
) -> Float[Tensor, "*n D"]:
    """Return ``g = Σ_c r_c tanh([h; y E; r] W_1 + b_1) W_2c`` of labelled rows, zero where the residual is zero.

    It has the form of the first Newton step towards the most probable vector, whose Jacobian is a map of the text.

    Source: Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, algorithm 3.3, the step from zero.

    Args:
        h: document vectors.
        y: labels.
        r: residuals: the gradient of a row's loss with respect to its logits.
    """
    x = (torch.cat([h, y @ E, r], dim=-1) @ W_1 + b_1).tanh()
    return torch.einsum("...c,...g,cgd->...d", r, x, W_2)


def set_encoding(
    g: Float[Tensor, "V n D"],
    mask: Bool[Tensor, "V n"],
    *,
    U: Float[Tensor, "D A"],
    q: Float[Tensor, " A"],
    kappa: Float[Tensor, " 1"],
) -> Float[Tensor, "V D"]:
    """Return ``n/(n + κ) Σ_i w_i g_i`` of sets of rows, ``w = softmax(tanh(g_i U) · q)``; zeros for an empty set.

    Source: Ilse, Tomczak and Welling 2018, eq. 8, the attention over a set; Bühlmann 1967, the credibility n/(n + κ).

    Args:
        g: the features of each row, from `residual_features`.
        mask: 1 for real rows, 0 for padding.
    """
    scores = ((g @ U).tanh() @ q).masked_fill(~mask, -torch.inf)
    n = mask.sum(dim=1, keepdim=True)
    w = torch.where(n > 0, scores, 0).softmax(dim=1)
    return n / (n + kappa) * torch.einsum("vn,vnd->vd", w, g)
