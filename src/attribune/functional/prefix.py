"""Soft prefixes that depend on the attributes, at the input or in the attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def soft_prefix(
    a: Float[Tensor, "B MZ"], P_0: Float[Tensor, "k E"], Q: Float[Tensor, "k E MZ"]
) -> Float[Tensor, "B k E"]:
    """Compute the vectors in front of each row's text: ``P_i = P_0i + sum_j Q_ij a_j`` for i = 1 to k.

    As further keys, or values, of a layer E is the number of their features.

    Source: Lester, Al-Rfou and Constant 2021, section 2; Li and Liang 2021, eq. 3 (Q = 0); Huber et al. 2025, k = 1.

    Args:
        Q: the Q_ij of all attributes side by side.
    """
    return P_0 + torch.einsum("kez,bz->bke", Q, a)
