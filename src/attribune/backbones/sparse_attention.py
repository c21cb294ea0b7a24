"""Backbones whose attention reads blocks of tokens, or some tokens everywhere: Longformer and BigBird."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from attribune.backbones.placement import Placement


def prepare_sparse_attention(backbone: Any, placement: Placement, *, longest: int | None) -> int | None:
    """Choose the attention of a backbone by the longest text; returns the length to which each batch is padded.

    In block-sparse attention padding changes real tokens, since the last block is read by all and the random blocks
    follow from the length. All batches therefore have one length. Texts that fit into the blocks read by each token
    have full attention, which the family would switch to at the first such batch, for good.

    Args:
        longest: ids of the longest text; None for as many as the backbone takes.
    """
    if not placement.is_block_sparse or backbone.config.attention_type != "block_sparse":
        return None
    config = backbone.config
    positions = config.max_position_embeddings
    longest = positions if longest is None else min(longest, positions)
    if longest <= (5 + 2 * config.num_random_blocks) * config.block_size:
        backbone.set_attention_type("original_full")
        return None
    rounded = -(-longest // config.block_size) * config.block_size
    return int(rounded if rounded <= positions else rounded - config.block_size)


def padded_inputs(
    inputs: Mapping[str, Tensor], text: Tensor, backbone: Any, placement: Placement, *, length: int | None
) -> tuple[dict[str, Tensor], Tensor]:
    """Pad a batch, and the mask of its text, as sparse attention needs it, and say which tokens are read everywhere.

    Args:
        inputs: of the backbone, (B, S) or (B, S, E), with the attention mask.
        text: (B, S), 1 for the tokens of the text; others are those of attributes, which are read everywhere.
        length: from `prepare_sparse_attention`.
    """
    padded = dict(inputs)
    mask = padded["attention_mask"]
    if placement.has_global_attention:
        first = mask.bool() & (mask.cumsum(dim=1) == 1)
        padded["global_attention_mask"] = (first | (mask.bool() & ~text.bool())).to(mask.dtype)
        window = backbone.config.attention_window
        length = -(-mask.shape[1] // (multiple := window if isinstance(window, int) else max(window))) * multiple
    missing = 0 if length is None else length - mask.shape[1]
    if missing <= 0:
        return padded, text
    fill = {"input_ids": backbone.config.pad_token_id or 0, "position_ids": backbone.config.pad_token_id or 0}
    longer = {
        name: pad(x, (0, missing) if x.dim() == 2 else (0, 0, 0, missing), value=fill.get(name, 0))
        for name, x in padded.items()
    }
    return longer, pad(text, (0, missing))
