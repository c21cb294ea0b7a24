"""Where models run."""

from __future__ import annotations

import torch

from attribune.errors import ConfigError

__all__ = ["default_device", "is_recorded", "named_device"]


def default_device() -> str:
    """Return the device on which models run: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def is_recorded() -> bool:
    """Return whether operations are being recorded, to be compiled, exported or replayed as a CUDA graph.

    What is recorded may not depend on the numbers in tensors: another batch runs through the same operations.
    """
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    is_used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return is_used and torch.cuda.is_current_stream_capturing()


def named_device(name: str | None) -> torch.device:
    """Return a device by its name, by default that of `default_device`; ConfigError for a name that torch refuses."""
    try:
        return torch.device(name or default_device())
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}: give cpu, cuda or cuda:0, or leave it out") from error
