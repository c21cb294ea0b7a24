"""User and product neural network (Tang, Qin and Liu 2015, UPNN)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def value_matrix_words(
    x: Float[Tensor, "B T E"], w: Float[Tensor, "B E"], U_1: Float[Tensor, "B E R"], U_2: Float[Tensor, "B R E"]
) -> Float[Tensor, "B T E"]:
    """Map words by the matrix of a value: ``U x_t`` with ``U = U_1 U_2 + diag(w)``, which is never made as a whole.

    Source: Tang, Qin and Liu 2015, the words of a user or product.
    """
    return x * w.unsqueeze(1) + (x @ U_2.mT) @ U_1.mT
