"""The precision in which this machine computes best, and that of what is summed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from attribune.errors import ConfigError

__all__ = [
    "at_least_float32",
    "check_precision",
    "computing_in",
    "default_float32",
    "product_dtype",
    "resolve_precision",
]

_PRECISIONS = ("float32", "bf16")
_MEANT = {"bfloat16": "bf16", "float16": "bf16", "fp16": "bf16", "half": "bf16", "fp32": "float32", "float": "float32"}


def check_precision(precision: str) -> None:
    """Refuse a precision in which nothing is predicted.

    Raises:
        ConfigError: naming those that there are.
    """
    if precision not in _PRECISIONS:
        close = _MEANT.get(str(precision).lower())
        hint = f"; did you mean {close!r}?" if close else ""
        raise ConfigError(f"precision is {precision!r}: choose from {', '.join(_PRECISIONS)}{hint}")


def resolve_precision(precision: str) -> str:
    """``auto`` as this machine understands it: bf16 where products of it are faster than those of float32."""
    if precision != "auto":
        return precision
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    has = torch.cpu.get_capabilities()
    if has.get("amx_bf16"):
        return "bf16"
    # Zen 4 and Cooper Lake multiply pairs of bf16 at twice the rate of float32. Intel's later processors, which have
    # float16 too, leave that to AMX: where a virtual machine hides AMX, bf16 takes 1.5 times as long as float32.
    return "bf16" if has.get("avx512_bf16") and not has.get("avx512_fp16") else "float32"


def computing_in(precision: str | None, device: str) -> AbstractContextManager[Any]:
    """Return the context in which a model computes in a precision: autocast for ``bf16``, none for others."""
    return torch.autocast(device, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


@contextmanager
def default_float32() -> Iterator[None]:
    """Make new tensors float32 within a block, whatever the default of the process; without effect where it is that."""
    before = torch.get_default_dtype()
    if before == torch.float32:
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def at_least_float32(x: Tensor) -> Tensor:
    """Return a tensor in float32, or as it is in float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def product_dtype(x: Tensor) -> torch.dtype:
    """Return the precision in which a matrix product of x runs, that of autocast if it is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
