"""Numbers of parameters of a model; without torch, since results are read without it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of parameters, and the bytes of those that are stored.

    Args:
        total: of the whole model.
        trained: that learn.
        stored: that are saved.
        outputs: of the head.
        encoder: of the backbone's layers, LoRA's left out; the papers' measure, 85.05M for BERT-base.
        injected: that learn in the layers and the method, without attribute tables and head; the papers' TP is this
            over `encoder`.
    """

    total: int
    trained: int
    stored: int
    stored_bytes: int
    outputs: int
    encoder: int
    injected: int
