"""Chunk-wise importance matrices (Amplayo 2019, "Rethinking Attribute Representation and Injection", CHIM)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attribune.functional.pooling import weighted_states


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


def chunk_importance_weight(
    c: Float[Tensor, "B MZ"],
    Q: Float[Tensor, "NK MZ"],
    b_q: Float[Tensor, " NK"],
    W: Float[Tensor, "inputs features"],
    *,
    repeats: int,
) -> Float[Tensor, "B inputs features"]:
    """Weigh a matrix by the attributes: ``I ⊙ W``, for each row.

    ``q = reshape(Q c + b_q, (N, K))`` is one chunk of ``N = in / r`` rows and K columns, and ``I[i, j] =
    sigmoid(q[i mod N, j mod K])`` the chunk tiled in both dimensions.

    Source: Amplayo 2019, the chunk-wise importance matrix.

    Args:
        Q: K rows for each of N rows of a chunk, K a divisor of `out`.
        repeats: r.
    """
    rows, columns = W.shape
    N = rows // repeats
    K = Q.shape[0] // N
    importance = torch.sigmoid(c @ Q.T + b_q).view(-1, 1, N, 1, K)
    return (importance * W.view(repeats, N, columns // K, K)).reshape(-1, rows, columns)


def personal_attention_pool(
    hidden: Float[Tensor, "B T H"],
    attention_mask: Shaped[Tensor, "B T"],
    W: Float[Tensor, "B H A"],
    b: Float[Tensor, "B A"],
    v: Float[Tensor, " A"],
) -> Float[Tensor, "B H"]:
    """Pool tokens by attention with weights of each row: ``e_t = v^T tanh(h_t W + b)``.

    Source: Amplayo 2019, the attention of its base model.

    Args:
        attention_mask: 1 for real tokens; a row without one gives zeros.
    """
    return weighted_states(torch.tanh(hidden @ W + b.unsqueeze(1)) @ v, hidden, attention_mask)
