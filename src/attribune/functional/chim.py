"""Chunk-wise importance matrices (Amplayo 2019, "Rethinking Attribute Representation and Injection", CHIM)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["chunk_importance_logits"]


def chunk_importance_logits(
    h: Float[Tensor, "B H"],
    c: Float[Tensor, "B MZ"],
    Q: Float[Tensor, "NL MZ"],
    b_q: Float[Tensor, " NL"],
    W: Float[Tensor, "H L"],
    b: Float[Tensor, " L"],
) -> Float[Tensor, "B L"]:
    """Weigh the classifier by the attributes: ``logits = h (I ⊙ W) + b``.

    ``q = reshape(Q c + b_q, (N, L))`` is one chunk, ``I[i, l] = sigmoid(q[i mod N, l])`` the chunk tiled over H.

    Source: Amplayo 2019, the chunk-wise importance matrix at the classifier.

    Args:
        Q: N rows for each label, N a divisor of H.
    """
    B, H = h.shape
    L = b.shape[0]
    N = Q.shape[0] // L
    importance = torch.sigmoid(c @ Q.T + b_q).view(B, N, L)
    # The same importance falls on every N-th feature, so these are summed first: I, of shape (B, H, L), is never built.
    parts = torch.einsum("brn,rnl->bnl", h.view(B, H // N, N), W.view(H // N, N, L))
    return (parts * importance).sum(dim=1) + b
