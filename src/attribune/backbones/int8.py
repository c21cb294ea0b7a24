"""Backbones whose linear maps have int8 weights, for prediction on CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attribune.errors import ConfigError
from attribune.functional.int8 import int8_linear, int8_packed, int8_weight


class Int8Weight(NamedTuple):
    """A weight that was rounded: the original, its whole numbers, these as oneDNN reads them, scales, and sums."""

    original: Tensor
    whole: Tensor
    packed: Tensor | None
    scales: Tensor
    sums: Tensor


Int8Weights = dict[tuple[int, ...], Int8Weight]
"""Weights by address and shape of the original, for backbones that share weights."""
_INSTRUCTIONS = ("avx512_vnni", "avx_vnni", "amx_int8")


class Int8Linear(nn.Module):
    """A linear map with an int8 weight (inputs, outputs), in the place of one of the backbone."""

    weight: nn.Parameter
    bias: nn.Parameter | None
    scales: Tensor
    sums: Tensor
    zeros: Tensor
    packed: Tensor | None

    def forward(self, states: Tensor) -> Tensor:
        """Map the states (..., inputs); the result is in float32."""
        bias = self.zeros if self.bias is None else self.bias
        return int8_linear(states.float(), self.weight, self.scales, self.sums, bias, self.packed)


def has_int8() -> bool:
    """Return whether products of int8 are faster than those of float32 on this processor."""
    has = torch.cpu.get_capabilities()
    return has.get("architecture") != "x86_64" or any(has.get(name) for name in _INSTRUCTIONS)


def check_int8(device: torch.device) -> None:
    """Refuse devices and processors on which int8 is no gain.

    Raises:
        ConfigError: for a GPU, or for an x86 processor without VNNI, on which products of int8 are slower than those
            of float32, and may overflow.
    """
    if device.type != "cpu":
        raise ConfigError(
            f"quantise='int8' is for CPUs, and the device is {device}: leave it out, or give device='cpu'"
        )
    if not has_int8():
        raise ConfigError(
            "quantise='int8' needs a processor with VNNI, and this one has none: products of int8 would be slower than "
            "those of float32; leave it out"
        )


def quantise_backbone(backbone: nn.Module, weights: Int8Weights) -> None:
    """Round the linear maps of a backbone to int8 in place, but for low-rank maps and the head that writes tokens.

    The modules stay the same objects, with the hooks that methods have put on them.

    Args:
        weights: of backbones that share weights with this one; those of this one are added.

    Raises:
        ConfigError: for weights that are not in float32 or not finite.
    """
    layers = list(_linear_layers(backbone))
    for layer in layers:
        if layer.weight.dtype != torch.float32:
            dtype = str(layer.weight.dtype).removeprefix("torch.")
            raise ConfigError(f"quantise='int8' rounds weights in float32, and these are in {dtype}: load float32")
    for layer in layers:
        _quantise(layer, weights)


def _linear_layers(backbone: nn.Module) -> Iterator[Any]:
    """Yield the layers that are quantised; subclasses of linear layers may use their weights in other ways."""
    head = getattr(backbone, "get_output_embeddings", lambda: None)()
    for path, module in backbone.named_modules():
        if type(module) in (nn.Linear, Conv1D) and module is not head and "lora_" not in path:
            yield module


def _quantise(layer: nn.Module, weights: Int8Weights) -> None:
    original = cast(Tensor, layer.weight).detach()
    place = (original.data_ptr(), *original.shape)
    if place not in weights:  # the original is kept, so that no other weight gets its address
        W = original.T if isinstance(layer, nn.Linear) else original
        q, scales = int8_weight(W)
        if not scales.isfinite().all():
            raise ConfigError("quantise='int8': weights of a linear map of the backbone are NaN or infinite")
        weights[place] = Int8Weight(original, q.contiguous(), int8_packed(q), scales, q.sum(dim=0) * scales)
    rounded = weights[place]
    layer.__class__ = Int8Linear
    layer.weight = nn.Parameter(rounded.whole, requires_grad=False)
    buffers = {"scales": rounded.scales, "sums": rounded.sums, "zeros": torch.zeros_like(rounded.sums)}
    for name, buffer in {**buffers, "packed": rounded.packed}.items():
        layer.register_buffer(name, buffer, persistent=False)
