"""Attention that is computed again in the backward pass, where PyTorch would keep its intermediate results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

__all__ = ["RecomputedAttention"]


class RecomputedAttention(TorchFunctionMode):
    """Forward passes in this context keep only what attention reads, if it has dropout and runs on the CPU.

    PyTorch has no fused attention with dropout for the CPU: it keeps the probabilities, the mask and the product, three
    tensors (B, heads, T, T) a layer. Computing them again draws the same mask, so that gradients do not change by a
    bit. Other devices have fused kernels, and are left alone.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `function`, and attention with dropout so that it is computed again."""
        options = dict(kwargs or {})
        if function is not scaled_dot_product_attention or not options.get("dropout_p") or args[0].device.type != "cpu":
            return function(*args, **options)
        return checkpoint(function, *args, use_reentrant=False, **options)
