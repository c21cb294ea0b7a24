"""Numbers of parameters of a model; without torch, since results are read without it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of parameters, and the bytes of the stored ones.

    Args:
        outputs: number of outputs of the head.
        encoder: parameters of the backbone's layers without LoRA; the papers' measure, 85.05M for BERT-base.
        injected: trained parameters in the layers and the method, without attribute tables and head; the papers' TP is
            `injected` over `encoder`.
    """

    total: int
    trained: int
    stored: int
    stored_bytes: int
    outputs: int
    encoder: int = 0
    injected: int = 0
