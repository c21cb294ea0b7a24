"""Extra keys and values for the attention of a backbone: summaries of other chunks, or a prefix.

Backbones that look their attention function up in the registry of transformers can use another one. This one appends
the extra keys and values of a layer, if `attach_extra_attention` provides them, and is that of transformers otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel

from attribune import functional

_NAME = "attribune_extra_attention"
_ATTRIBUTE = "_attribune_extra"


class Extra(NamedTuple):
    """Extra states of one layer's attention, which all tokens may read.

    Attributes:
        keys: (B, N, heads · d), of N extra states.
        values: (B, N, heads · d).
        real: (B, N), 1 for those that count; all of them if None.
    """

    keys: Tensor
    values: Tensor
    real: Tensor | None = None


Read = Callable[[], Extra | None]


def attach_extra_attention(backbone: Any, attention: nn.Module, read: Read) -> None:
    """Let one attention module of a backbone read extra states, after those of earlier calls.

    Args:
        backbone: its attention function becomes that of this file.
        attention: the module that calls the attention function.
        read: returns the extra states of the current forward pass, if any. A bound method or a partial of one, so that
            a copied model reads its own.
    """
    for module in backbone.modules():
        if isinstance(module, PreTrainedModel):  # UMT5's encoder has a copy of the configuration
            module.config._attn_implementation = _NAME
    setattr(attention, _ATTRIBUTE, (*getattr(attention, _ATTRIBUTE, ()), read))


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Attention of (B, heads, T, d) over a layer's own keys and the extra ones; a position bias is 0 for these."""
    reads: tuple[Read, ...] = getattr(module, _ATTRIBUTE, ())
    extras = [one for one in [read() for read in reads] if one is not None]
    softcap = options.pop("softcap", None)
    if extras or softcap is not None:
        if attention_mask is None and _is_causal(module, query, options.get("is_causal")):
            attention_mask = query.new_ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool).tril()
        options["is_causal"] = False
    for extra in extras:
        attention_mask = _extend_mask(attention_mask, extra, query, key)
        key, value = functional.structure_enhanced(key, extra.keys), functional.structure_enhanced(value, extra.values)
    if (bias := options.get("position_bias")) is not None:
        options["position_bias"] = pad(bias, (0, key.shape[2] - bias.shape[-1]))
    if softcap is not None:
        return _capped(query, key, value, attention_mask, cap=softcap, scale=options["scaling"]), None
    output, weights = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, weights


def _is_causal(module: nn.Module, query: Tensor, given: bool | None) -> bool:
    causal: bool = getattr(module, "is_causal", True) if given is None else given
    return causal and query.shape[2] > 1


def _capped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, cap: float, scale: float) -> Tensor:
    """Attention whose scores are kept below a limit, ``cap tanh(score / cap)``, which torch's own function cannot."""
    groups = query.shape[1] // key.shape[1]
    key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    scores = cap * torch.tanh(query @ key.transpose(2, 3) * scale / cap)
    if mask is not None:
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~mask, lowest) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(dim=-1, dtype=torch.float64 if scores.dtype == torch.float64 else torch.float32)
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous()


def _extend_mask(mask: Tensor | None, extra: Extra, query: Tensor, key: Tensor) -> Tensor | None:
    """Append columns of N extra states to a mask (B, 1, T, S); None if all tokens read all states."""
    if mask is None and extra.real is None:
        return None
    (B, _, T, _), (_, N, _), S = query.shape, extra.keys.shape, key.shape[2]
    own = query.new_ones(1, 1, 1, S, dtype=torch.bool) if mask is None else mask
    real = query.new_ones(1, N, dtype=torch.bool) if extra.real is None else extra.real.bool()
    shape = (B, own.shape[1], T)
    columns = real[:, None, None, :].expand(*shape, N)
    if own.dtype != torch.bool:  # added to the scores
        columns = columns.new_zeros(columns.shape, dtype=own.dtype).masked_fill(~columns, torch.finfo(own.dtype).min)
    return torch.cat([own.expand(*shape, S), columns], dim=-1)


# On import, so that a pickled model finds it in another process.
ALL_ATTENTION_FUNCTIONS.register(_NAME, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, sdpa_mask)
