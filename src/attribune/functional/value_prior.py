"""The evidence of a prior of the vectors of values: random effects (Laird and Ware 1982) by Laplace's approximation.

A value's vector ``u ~ N(0, variance I)`` changes the logits f of its rows by ``J u``, so that these changes are ``K a``
with ``K = variance J J'``, and u is ``variance J' a``. Shapes: V values, n logits of all rows of a value.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def value_mode_step(
    a: Float[Tensor, "V n"], g: Float[Tensor, "V n"], K: Float[Tensor, "V n n"], W: Float[Tensor, "V n n"]
) -> Float[Tensor, "V n"]:
    """Return the next a of Newton's method for the most probable vectors: ``(I + W K)⁻¹ (W K a - g)``.

    Source: Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, algorithm 3.3.

    Args:
        g: gradient of the negative log-likelihood in the logits, at ``K a``.
        W: its Hessian there.
    """
    moved = W @ (K @ a.unsqueeze(2)) - g.unsqueeze(2)
    step: Tensor = torch.linalg.solve(_curvature(K, W), moved).squeeze(2)
    return step


def value_log_evidence(
    loss: Float[Tensor, " V"], a: Float[Tensor, "V n"], K: Float[Tensor, "V n n"], W: Float[Tensor, "V n n"]
) -> Float[Tensor, " V"]:
    """Return the logarithm of the marginal likelihood of each value's rows: ``-loss - a'Ka/2 - log det(I + W K)/2``.

    Source: Laird and Ware 1982, the marginal likelihood of random effects; Rasmussen and Williams 2006, equation 3.32.

    Args:
        loss: the rows' negative log-likelihood for the most probable vectors.
        a: the coefficients of these vectors; the logits change by ``K a``.
        W: the Hessian of the loss in the logits there.
    """
    squares = torch.einsum("vi,vij,vj->v", a, K, a)
    evidence: Tensor = -loss - 0.5 * squares - 0.5 * torch.linalg.slogdet(_curvature(K, W))[1]
    return evidence


def value_covariance_after(Sigma: Float[Tensor, "D D"], G: Float[Tensor, "D K"]) -> Float[Tensor, "D D"]:
    """Return the covariance of a value's vector after rows: ``Σ - Σ G (I + G' Σ G)⁻¹ G' Σ``, which is (Σ⁻¹ + G G')⁻¹.

    Source: Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, equations 2.11 and A.9.

    Args:
        Sigma: the covariance before the rows.
        G: columns whose outer products add up to the information of the rows.
    """
    known = Sigma @ G
    inner = torch.eye(G.shape[1], dtype=G.dtype, device=G.device) + G.T @ known
    after: Tensor = Sigma - known @ torch.linalg.solve(inner, known.T)
    return (after + after.T) / 2


def prediction_gain(
    Sigma: Float[Tensor, "D D"], G: Float[Tensor, "n D K"], M: Float[Tensor, "D D"]
) -> Float[Tensor, " n"]:
    """Return by how much the answer to each text lowers the expected loss of others, ``tr((I + G'ΣG)⁻¹ G'ΣMΣG)/2``.

    It is ``tr(M (Σ - Σ_after))/2`` with the `value_covariance_after`, to second order in the vector: the expected
    variance of predictions, weighted by their information.

    Source: Cohn, Ghahramani and Jordan 1996, Active Learning with Statistical Models.

    Args:
        Sigma: the covariance of the vector.
        G: columns whose outer products add up to the information of a text.
        M: the mean of these outer products over the texts that are predicted.
    """
    known = Sigma @ G
    inner = torch.eye(G.shape[2], dtype=G.dtype, device=G.device) + G.mT @ known
    moved = known.mT @ M @ known
    gain: Tensor = torch.linalg.solve(inner, moved).diagonal(dim1=1, dim2=2).sum(dim=1) / 2
    return gain


def _curvature(K: Float[Tensor, "V n n"], W: Float[Tensor, "V n n"]) -> Float[Tensor, "V n n"]:
    return torch.eye(K.shape[1], dtype=K.dtype, device=K.device) + W @ K
