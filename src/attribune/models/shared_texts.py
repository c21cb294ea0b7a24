"""Rows that share a text: what is below the first place where a method acts is computed once for each text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SharedTexts:
    """The U distinct texts of a batch of B rows.

    Args:
        rows: (U,), a row that has each text.
        numbers: (B,), the number of each row's text.
    """

    rows: Tensor
    numbers: Tensor

    @classmethod
    def of(cls, keys: Tensor) -> Self | None:
        """Find the rows with equal keys (B,); None if each row has a text of its own."""
        distinct, numbers = torch.unique(keys, return_inverse=True)
        if len(distinct) == len(keys):
            return None
        rows = torch.empty_like(distinct).scatter_(0, numbers, torch.arange(len(keys), device=keys.device))
        return cls(rows, numbers)

    def __len__(self) -> int:
        return len(self.rows)

    def spread(self, x: Tensor) -> Tensor:
        """Give rows what was computed of their texts, which may be cut into C chunks: (U·C, ...) -> (B·C, ...)."""
        return x.view(len(self), -1, *x.shape[1:])[self.numbers].flatten(0, 1)

    def spread_output(self, output: Any) -> Any:
        """Do so with the output of a layer; tensors of it that are the same for all texts stay."""
        if isinstance(output, Tensor):
            return self.spread(output)
        states = output[0]
        return type(output)(
            self.spread(x) if isinstance(x, Tensor) and x.shape[:1] == states.shape[:1] else x for x in output
        )


@contextmanager
def layers_replaced(layers: Sequence[nn.Module], output: Callable[[], Any]) -> Iterator[None]:
    """Let layers compute nothing within a block, and return this instead, whatever they are given."""
    before = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = lambda *_args, **_options: output()
    try:
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            del layer.forward
            if forward is not None:
                layer.forward = forward


@contextmanager
def stopped_behind(layer: nn.Module, above: Sequence[nn.Module]) -> Iterator[list[Any]]:
    """Let the layers above one compute nothing within a block; the list gets the output of that one."""
    outputs: list[Any] = []
    handle = layer.register_forward_hook(lambda _layer, _args, output: outputs.append(output))
    try:
        with layers_replaced(above, lambda: outputs[-1]):
            yield outputs
    finally:
        handle.remove()


def draws_at_random(backbone: nn.Module) -> bool:
    """Return whether the states of a backbone depend on chance, as those of one in training with dropout do."""
    if not backbone.training:
        return False
    has_dropout = any(isinstance(module, nn.Dropout) and module.p > 0 for module in backbone.modules())
    config: Any = backbone.config
    return has_dropout or _names_dropout(config.to_dict())


def runs_again(backbone: nn.Module) -> bool:
    """Return whether layers of a backbone run again in the backward pass (gradient checkpointing)."""
    return any(getattr(module, "gradient_checkpointing", False) for module in backbone.modules())


def _names_dropout(settings: Mapping[str, Any]) -> bool:
    """Return whether one of the settings is a dropout, some of which are no modules, such as that of attention."""
    return any(
        _names_dropout(value)
        if isinstance(value, Mapping)
        else "drop" in str(name) and isinstance(value, float | int) and value > 0
        for name, value in settings.items()
    )
