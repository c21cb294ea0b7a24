"""Which of two is preferred.

Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs", and with ties Davidson 1970, "On Extending the
Bradley-Terry Model to Accommodate Ties in Paired Comparison Experiments".
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def preference_log_probability(r_1: Float[Tensor, " B"], r_2: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return ``log P(y_1 > y_2) = log σ(r_1 - r_2)`` of two rewards, without overflow or cancellation.

    Source: Bradley and Terry 1952, the probability of a preference.

    The paper's ratings are ``π = exp(r)``: the probability is ``π_1 / (π_1 + π_2)``.

    Args:
        r_1: the reward of the preferred text, for the judge of its row.
        r_2: the reward of the other text, for the same judge.
    """
    return functional.logsigmoid(r_1 - r_2)


def preference_or_tie_logits(
    r_1: Float[Tensor, " B"], r_2: Float[Tensor, " B"], log_nu: Float[Tensor, "1"]
) -> Float[Tensor, "B 3"]:
    """Return logits, whose softmax is ``P(y_1 > y_2)``, ``P(y_2 > y_1)`` and ``P(tie)``; the first two are rewards.

    Source: Davidson 1970, the probabilities of a preference and of no preference.

    The paper's ratings are ``π = exp(r)``: the probabilities are as ``π_1``, ``π_2`` and ``ν sqrt(π_1 π_2)``.

    Args:
        r_1: the reward of the first text, for the judge of its row.
        r_2: the reward of the second text, for the same judge.
        log_nu: log ν; two texts of equal rewards tie with the probability ``ν / (2 + ν)``.
    """
    return torch.stack([r_1, r_2, log_nu + (r_1 + r_2) / 2], dim=1)
