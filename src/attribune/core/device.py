"""Where models run."""

from __future__ import annotations

import torch

__all__ = ["default_device"]


def default_device() -> str:
    """Return the device on which models run: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
