"""The loss of several classifiers (Wu et al. 2018, HUAPA: "Improving Review Representations...")."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def joint_loss(loss: Float[Tensor, " K"], weights: Sequence[float]) -> Float[Tensor, ""]:
    """Add the losses of K classifiers up: ``sum_k weight_k loss_k``, such as ``0.4 CE + 0.3 CE_u + 0.3 CE_p``.

    Source: Wu et al. 2018 (HUAPA), the loss of the three classifiers.
    """
    return loss @ torch.tensor(weights, dtype=loss.dtype, device=loss.device)
