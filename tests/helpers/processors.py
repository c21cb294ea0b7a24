"""What the processor at hand can do."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn

from attribune.backbones.int8 import check_int8
from attribune.errors import ConfigError

__all__ = ["has_bf16", "has_int8", "needs_int8"]


def has_int8() -> bool:
    """Whether this processor computes predictions in int8."""
    try:
        check_int8(torch.device("cpu"))
    except ConfigError:
        return False
    return True


needs_int8 = pytest.mark.skipif(not has_int8(), reason="this processor has no instructions for int8")


def has_bf16(model: nn.Module) -> bool:
    """Whether a model can be run under autocast to bf16, for which LSTMs need a processor with its instructions."""
    return _has_bf16_lstm() or not any(isinstance(module, nn.LSTM) for module in model.modules())


@cache
def _has_bf16_lstm() -> bool:
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            nn.LSTM(4, 4)(torch.ones(2, 3, 4))
    except RuntimeError:
        return False
    return True
