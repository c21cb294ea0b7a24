"""Document vectors of token states, among them UPA (Chen et al. 2016, "Neural Sentiment Classification")."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor


def softmax_over_real(scores: Float[Tensor, "B T"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return the softmax over the real tokens; zeros for a row without one."""
    real = attention_mask.bool()
    # The smallest number instead of minus infinity, so that a row without a real token does not become NaN.
    return scores.masked_fill(~real, torch.finfo(scores.dtype).min).softmax(dim=1) * real


def attention_pool(
    hidden: Float[Tensor, "B T H"],
    attention_mask: Shaped[Tensor, "B T"],
    a: Float[Tensor, "B MZ"],
    W_h: Float[Tensor, "A H"],
    W: Float[Tensor, "A MZ"],
    b: Float[Tensor, " A"],
    v: Float[Tensor, " A"],
) -> Float[Tensor, "B H"]:
    """Pool tokens by user and product attention: ``e_t = v^T tanh(W_h h_t + sum_j W_j a_j + b)``.

    The document vector is the sum of the states, weighted by the softmax of e over the real tokens.

    Source: Chen et al. 2016, eq. 2-3; Wu et al. 2018 (HUAPA), the attention of a user, and that of a product.

    Args:
        attention_mask: 1 for real tokens; a row without one gives zeros.
        W: the W_j side by side.
    """
    scores = torch.tanh(hidden @ W_h.T + (a @ W.T + b).unsqueeze(1)) @ v
    return weighted_states(scores, hidden, attention_mask)


def weighted_states(
    scores: Float[Tensor, "B T"], hidden: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"]
) -> Float[Tensor, "B H"]:
    """Return the sum of states, weighted by the softmax of scores over the real tokens, in float32 at least."""
    alpha = softmax_over_real(scores.to(torch.promote_types(scores.dtype, torch.float32)), attention_mask)
    return (alpha.to(hidden.dtype).unsqueeze(1) @ hidden).squeeze(1)


def first_token(hidden: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B H"]:
    """Return the state of the first real token, wherever padding stands; real tokens have attention mask 1."""
    index = attention_mask.to(torch.int32).argmax(dim=1)
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), index]


def last_token(hidden: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B H"]:
    """Return the state of the last real token, wherever padding stands."""
    T = attention_mask.shape[1]
    index = T - 1 - attention_mask.flip(1).to(torch.int32).argmax(dim=1)
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), index]


def max_tokens(hidden: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B H"]:
    """Return the largest value of each feature over the real tokens; zeros for a row without one."""
    real = attention_mask.unsqueeze(-1).bool()
    largest = hidden.masked_fill(~real, torch.finfo(hidden.dtype).min).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1), 0)


def mean_tokens(hidden: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"]) -> Float[Tensor, "B H"]:
    """Return the mean over the real tokens; zeros for a row without one.

    Source: Chen et al. 2016 (NSC), the mean of words and of sentences.
    """
    real = attention_mask.unsqueeze(-1).bool()
    # float16 sums of a few hundred tokens overflow.
    total = hidden.masked_fill(~real, 0).sum(dim=1, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return (total / real.sum(dim=1).clamp(min=1)).to(hidden.dtype)
