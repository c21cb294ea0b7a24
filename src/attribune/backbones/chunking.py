"""Long documents as several rows of the backbone's batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def cut_chunks(inputs: Mapping[str, Tensor], chunk: int) -> dict[str, Tensor]:
    """Cut documents into chunks of `chunk` tokens, padded at the end: (B, T) → (B·C, chunk).

    Padding on the left is moved to the right first, so that the first chunk begins where the document does. The inputs
    are ``attention_mask``, which may have zeros between two chunks, and others of its shape.
    """
    mask = inputs["attention_mask"]
    positions = torch.arange(mask.shape[1], device=mask.device)
    first = mask.bool().int().argmax(dim=1, keepdim=True)
    order = (positions + first) % mask.shape[1]
    missing = -mask.shape[1] % chunk
    return {name: nn.functional.pad(x.gather(1, order), (0, missing)).view(-1, chunk) for name, x in inputs.items()}


def without_empty_rows(attention_mask: Tensor) -> Tensor:
    """Add a token to empty rows, whose attention would be NaN; the outputs of such rows must be masked afterwards."""
    mask = attention_mask.clone()
    mask[:, 0] = mask[:, 0].masked_fill(~mask.bool().any(dim=1), 1)
    return mask
