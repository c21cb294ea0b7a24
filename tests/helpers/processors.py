"""What the processor at hand can do."""

from __future__ import annotations

import pytest
import torch

from attribune.backbones.int8 import check_int8
from attribune.errors import ConfigError


def has_int8() -> bool:
    """Whether this processor computes predictions in int8."""
    try:
        check_int8(torch.device("cpu"))
    except ConfigError:
        return False
    return True


needs_int8 = pytest.mark.skipif(not has_int8(), reason="this processor has no instructions for int8")
