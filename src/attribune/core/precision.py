"""The precision in which this machine computes best."""

from __future__ import annotations

import torch

__all__ = ["resolve_precision"]


def resolve_precision(precision: str) -> str:
    """``auto`` as this machine understands it: bf16 where the processor computes in it, else float32."""
    if precision != "auto":
        return precision
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "float32"
