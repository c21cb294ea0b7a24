"""Attribute values as control tokens (Amplayo, Yoo and Lee 2022, the baseline Tokens)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor


def control_tokens(
    embeddings: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    values: Float[Tensor, "B n E"],
    present: Shaped[Tensor, "B n"],
    *,
    after_first: bool | Bool[Tensor, " B"],
) -> tuple[Float[Tensor, "B T+n E"], Shaped[Tensor, "B T+n"], Int[Tensor, "B T"]]:
    """Insert attribute values as tokens right after the first one: ``[CLS] v_1 ... v_n x_1 ...``.

    A missing value occupies its position with attention mask 0.

    Source: Amplayo, Yoo and Lee 2022, section 5, the baseline Tokens.

    Args:
        embeddings: of the text's tokens, before positions are added.
        attention_mask: 1 for real tokens; padding may be on either side.
        values: embeddings of the values.
        present: 1 where there is a value.
        after_first: whether the values follow the first real token, a special one, or precede it.

    Returns:
        All embeddings, their attention mask, and the position of each token of the text.
    """
    B, T, E = embeddings.shape
    n = values.shape[1]
    after = after_first if isinstance(after_first, Tensor) else torch.full((B,), after_first, device=embeddings.device)
    before = after.unsqueeze(1).to(torch.int64)
    first = attention_mask.to(torch.int32).argmax(dim=1, keepdim=True) + before
    tokens = torch.arange(T, device=embeddings.device).expand(B, T)
    tokens = torch.where(tokens < first, tokens, tokens + n)
    slots = first + torch.arange(n, device=embeddings.device)
    order = torch.cat([tokens, slots], dim=1)
    states = torch.cat([embeddings, values.to(embeddings.dtype)], dim=1)
    mask = torch.cat([attention_mask, present.to(attention_mask.dtype)], dim=1)
    states = torch.zeros_like(states).scatter(1, order.unsqueeze(-1).expand(-1, -1, E), states)
    return states, torch.zeros_like(mask).scatter(1, order, mask), tokens
