"""Short hashes of weights, by which those that a model was trained on are recognised."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from attribune.core.door import as_argument
from attribune.core.hashing import checksum
from attribune.errors import ModelFolderError

__all__ = ["check_fingerprint", "fingerprint"]


def fingerprint(backbone: nn.Module) -> str:
    """Return a short hash of the name, shape and first 64 numbers of every parameter; milliseconds at any size."""
    return checksum((part for one in backbone.named_parameters() for part in _shown(*one)), size=16)


def _shown(name: str, parameter: nn.Parameter) -> tuple[bytes, bytes]:
    # Rounded, so that the hash does not depend on the precision in which the weights were loaded.
    head = parameter.detach().flatten()[:64].to("cpu", torch.bfloat16).float()
    return f"{name}{tuple(parameter.shape)}".encode(), head.numpy().tobytes()


def check_fingerprint(actual: str, expected: str, *, name: str, folder: Path) -> None:
    """Raise ModelFolderError if a backbone's fingerprint is not that of the weights a model was trained on."""
    if actual != expected:
        raise ModelFolderError(
            f"{folder} was trained on other weights than those at {name!r} now: its learned tensors would silently "
            f"give wrong predictions. Give the original weights with {as_argument('backbone', 'FOLDER')}, or the "
            "revision they had"
        )
