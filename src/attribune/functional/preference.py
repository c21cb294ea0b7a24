"""Which of two is preferred (Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs")."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

__all__ = ["preference_log_probability"]


def preference_log_probability(r_1: Float[Tensor, " B"], r_2: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return ``log P(y_1 > y_2) = log σ(r_1 - r_2)`` of two rewards, without overflow or cancellation.

    Source: Bradley and Terry 1952, the probability of a preference.

    The paper's ratings are ``π = exp(r)``: the probability is ``π_1 / (π_1 + π_2)``.

    Args:
        r_1: the reward of the preferred text, for the judge of its row.
        r_2: the reward of the other text, for the same judge.
    """
    return functional.logsigmoid(r_1 - r_2)
