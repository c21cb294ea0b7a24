"""Extra keys and values for the attention of a backbone, by which chunks of one document read each other.

Backbones that look their attention function up in the registry of transformers can use another one. This one appends
the extra keys and values of a layer, if `attach_extra_attention` provides them, and is scaled dot-product attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = ["Extra", "attach_extra_attention"]

_NAME = "attribune_extra_attention"
_ATTRIBUTE = "_attribune_extra"


class Extra(NamedTuple):
    """Extra states of one layer's attention.

    Attributes:
        keys: (B, N, heads · d), of N extra states.
        values: (B, N, heads · d).
        real: (B, N), 1 for those that count.
    """

    keys: Tensor
    values: Tensor
    real: Tensor


def attach_extra_attention(backbone: Any, attention: nn.Module, read: Callable[[], Extra | None]) -> None:
    """Let one attention module of a backbone read extra states.

    Args:
        backbone: its attention function becomes that of this file.
        attention: the module that calls the attention function.
        read: returns the extra states of the current forward pass, if any. A bound method or a partial of one, so that
            a copied model reads its own.
    """
    backbone.config._attn_implementation = _NAME
    setattr(attention, _ATTRIBUTE, read)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of (B, heads, T, d); a position bias (1, heads, T, T) is 0 for extra states."""
    read: Callable[[], Extra | None] | None = getattr(module, _ATTRIBUTE, None)
    extra = None if read is None else read()
    if extra is not None:
        key = torch.cat([key, _heads(extra.keys, key)], dim=2)
        value = torch.cat([value, _heads(extra.values, value)], dim=2)
        attention_mask = _extend_mask(attention_mask, extra.real, query)
    if position_bias is not None:
        position_bias = nn.functional.pad(position_bias, (0, key.shape[2] - position_bias.shape[-1]))
        if attention_mask is not None:
            position_bias = position_bias.masked_fill(~attention_mask, torch.finfo(position_bias.dtype).min)
        attention_mask = position_bias.to(query.dtype)
    grouped = key.shape[1] != query.shape[1]
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, enable_gqa=grouped
    )
    return output.transpose(1, 2).contiguous(), None


def _heads(states: Tensor, like: Tensor) -> Tensor:
    """(B, N, heads · d) → (B, heads, N, d)."""
    return states.view(*states.shape[:2], -1, like.shape[-1]).transpose(1, 2).to(like.dtype)


def _extend_mask(mask: Tensor | None, real: Tensor, query: Tensor) -> Tensor:
    """Append columns of N extra states to a mask (B, 1, T, T); None if all tokens are real."""
    B, _, T, _ = query.shape
    own = query.new_ones(1, 1, 1, 1, dtype=torch.bool) if mask is None else mask
    return torch.cat([own.expand(B, 1, T, T), real.bool()[:, None, None, :].expand(-1, 1, T, -1)], dim=-1)


# On import, so that a pickled model finds it in another process.
ALL_ATTENTION_FUNCTIONS.register(_NAME, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, sdpa_mask)
