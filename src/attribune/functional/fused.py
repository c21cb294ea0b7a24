"""States times generated weights, without storing the weights where that is slower: on CUDA, with Triton.

A row's weight has H·A numbers, however short its text. For a short text most of the time goes into writing the weight,
reading it again, adding the shared part, and casting it. The kernel computes it block by block within the product and
never stores it; a backward pass does. `attribune.functional` defines the equations and the letters.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attribune.core.device import is_recorded
from attribune.errors import ConfigError
from attribune.functional.tanh_sum import tanh_sum

__all__ = [
    "VARIABLE",
    "ProjectionImplementation",
    "fused_projection",
    "is_better_fused",
    "product_dtype",
    "triton_is_installed",
]

ProjectionImplementation = Literal["auto", "fused", "weights"]

VARIABLE = "ATTRIBUNE_FUSED"
"""Environment variable that overrides ``auto``: 0 for never, 1 for wherever the kernel can run."""

_log = logging.getLogger(__name__)
# Measured on an H200 without gradients: 3 times as fast up to 64 tokens, 1.2 times with 256 rows of 256 tokens, slower
# with 256 rows of 512. A backward pass writes the weights after all, and loses 10 to 20 %.
_MAX_TOKENS = 256
_MAX_VALUES = 4096  # each program searches its row of the membership, up to this length
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def fused_projection(
    h: Float[Tensor, "B T H"],
    z_hat: Float[Tensor, "U O A"],
    K: Float[Tensor, "O H"],
    membership: Float[Tensor, "B U"],
    C: Float[Tensor, "H A"],
) -> Float[Tensor, "B T A"]:
    """Compute ``h (sum_u membership[b, u] reshape(sum_o tanh(z_hat[u, o] K[o]^T), (H, A)) + C)`` by the kernel.

    The result has the precision in which a product of `h` runs. No gradient flows to the membership; the backward pass
    computes the weights again, by `attribune.functional.tanh_sum.tanh_sum`.
    """
    z_hat, K, membership, C = (x.to(torch.float32) for x in (z_hat, K, membership.detach(), C))
    h = h.to(product_dtype(h))
    result: Tensor = _Projection.apply(h, z_hat, K, membership, C)  # type: ignore[no-untyped-call]
    return result


class _Projection(torch.autograd.Function):
    """`fused_projection`: forward by the kernel, backward by way of the weights."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, z_hat: Tensor, K: Tensor, membership: Tensor, C: Tensor) -> Tensor:
        from attribune.functional.fused_kernel import launch

        operands = [x.contiguous() for x in (h, z_hat, K, membership, C)]
        ctx.save_for_backward(*operands)
        return launch(*operands, tf32=torch.get_float32_matmul_precision() != "highest")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad
        h, z_hat, K, membership, C = (
            x.detach().requires_grad_(need) for x, need in zip(ctx.saved_tensors, needed, strict=True)
        )
        with torch.enable_grad(), torch.autocast(h.device.type, enabled=False):
            out = h @ (tanh_sum(z_hat, K, membership).view(-1, *C.shape) + C).to(h.dtype)
        learned = [x for x in (h, z_hat, K, C) if x.requires_grad]
        gradients = iter(torch.autograd.grad(out, learned, grads[0].to(out.dtype)))
        return tuple(next(gradients) if need else None for need in needed)


def product_dtype(h: Tensor) -> torch.dtype:
    """Return the precision in which a matrix product of h runs, that of autocast if it is on."""
    device = h.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else h.dtype


def is_better_fused(h: Tensor, membership: Tensor) -> bool:
    """Whether the kernel can be used and is likely to be faster; see `attribune.functional.phm_projection`."""
    if h.device.type != "cuda" or is_recorded() or not (h.numel() and membership.numel()):
        return False
    override = _override()
    if override == "0" or product_dtype(h) not in _DTYPES or membership.dtype == torch.float64:
        return False
    fits = h.shape[1] <= _MAX_TOKENS and membership.shape[1] <= _MAX_VALUES and not torch.is_grad_enabled()
    return (fits or override == "1") and _works(h.device, product_dtype(h))


def kernel_is_forced(z: Tensor) -> bool:
    """Whether the variable asks for the kernel wherever it can run, and this is a GPU."""
    return z.device.type == "cuda" and _override() == "1"


def _override() -> str:
    override = os.environ.get(VARIABLE, "")
    if override not in ("", "0", "1"):
        raise ConfigError(f"{VARIABLE} is {override!r}: give 0 for never, 1 for always, or leave it unset")
    return override


def triton_is_installed() -> bool:
    """Whether Triton, which comes with the CUDA builds of PyTorch, is installed."""
    return find_spec("triton") is not None


@cache
def _works(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel can be compiled for a device and agrees with stored weights; if not, the log says why."""
    if not triton_is_installed():
        return False
    generator = torch.Generator().manual_seed(0)
    shapes = {"h": (3, 5, 48), "z_hat": (2, 4, 16), "K": (4, 48), "membership": (3, 2), "C": (48, 16)}
    operands = {name: torch.rand(shape, generator=generator).sub_(0.5).to(device) for name, shape in shapes.items()}
    operands["h"] = operands["h"].to(dtype)
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            result = fused_projection(**operands)
            weights = tanh_sum(operands["z_hat"], operands["K"], operands["membership"]).view(3, 48, 16)
            weights += operands["C"]
            expected = operands["h"] @ weights.to(dtype)
        difference = float((result.float() - expected.float()).abs().max() / expected.float().abs().max())
    except Exception as error:  # whatever a compiler or a driver raises: the other way is always there
        _log.warning("the fused kernel cannot be used on %s, weights are written instead: %s", device, error)
        return False
    if not difference < 0.02:  # half precisions and TF32 are within 0.01
        _log.warning("the fused kernel is %.2g off on %s, weights are written instead", difference, device)
        return False
    return True
