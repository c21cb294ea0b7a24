"""How similar two texts are by the cosine of their vectors, and the losses that learn it."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


def cosine_similarity(u: Float[Tensor, "B H"], v: Float[Tensor, "B H"]) -> Float[Tensor, " B"]:
    """Return ``cos(u, v) = u v / (|u| |v|)``; 0 where one of the vectors is zero.

    Source: Reimers and Gurevych 2019, section 3, the cosine of the regression objective.

    Args:
        u: the vector of the first text of each row.
        v: that of the second one.
    """
    return (functional.normalize(u, dim=1) * functional.normalize(v, dim=1)).sum(dim=1)


def multiple_negatives_loss(
    u: Float[Tensor, "B H"], v: Float[Tensor, "B H"], texts: Int[Tensor, " B"], *, scale: float
) -> Float[Tensor, " B"]:
    """Return ``-log(exp(S_ii) / Σ_j exp(S_ij))`` of each row i, with ``S_ij = scale * cos(u_i, v_j)``.

    Source: Henderson et al. 2017, the loss with multiple negatives; the paper scores by the product of the vectors.

    The second texts of the other rows are the negatives, except those that equal the row's own: they are left out of
    the sum.

    Args:
        u: the vectors of the first texts.
        v: those of the second ones.
        texts: numbers of the second texts, equal for equal texts.
        scale: the inverse of the temperature.
    """
    S = scale * functional.normalize(u, dim=1) @ functional.normalize(v, dim=1).T
    is_same = texts.unsqueeze(0) == texts.unsqueeze(1)
    is_same.fill_diagonal_(False)
    return -S.masked_fill(is_same, -float("inf")).log_softmax(dim=1).diagonal()


def triplet_margin_loss(c_p: Float[Tensor, " B"], c_n: Float[Tensor, " B"], *, margin: float) -> Float[Tensor, " B"]:
    """Return ``max(0, |a - p|² - |a - n|² + α)`` of unit vectors, whose squared distance is ``2 - 2 cos``.

    Source: Schroff, Kalenichenko and Philbin 2015, the triplet loss.

    Args:
        c_p: the cosines of anchor and positive.
        c_n: those of anchor and negative.
        margin: α.
    """
    return functional.relu(2 * (c_n - c_p) + margin)
