"""Vectors of values from what is known of them (random effects with a mean, Laird and Ware 1982)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def described_vectors(
    x: Float[Tensor, "U X"],
    W_1: Float[Tensor, "X D"],
    b_1: Float[Tensor, " D"],
    W_2: Float[Tensor, "D Z"],
) -> Float[Tensor, "U Z"]:
    """Return ``(tanh(x W_1 + b_1) - tanh(b_1)) W_2``, which is zero for a value that is not described.

    Source: Laird and Ware 1982, the mean of a random effect given its covariates, here by a map of two layers.

    Args:
        x: the standardised description of each value; zeros where nothing is known.
    """
    return ((x @ W_1 + b_1).tanh() - b_1.tanh()) @ W_2
