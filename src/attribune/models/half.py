"""A backbone in bfloat16, for predictions: copies of its weights that stand in for them within a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from attribune.methods.plan import Watch
from attribune.models.base import ConditionedModel


class HalfBackbone:
    """Copies in bfloat16 of the weights of a model's backbone, which are made anew when the weights have changed.

    Autocast rounds the weights again in every pass, and returns to float32 at every norm. Buffers, such as the
    frequencies of rotary positions, stay as they are, and so do method and head.
    """

    def __init__(self, model: ConditionedModel) -> None:
        self._model = model
        self._seen: tuple[int, Watch] | None = None  # how often it was switched to training, and its weights
        self._copies: list[tuple[dict[str, nn.Parameter | None], str, nn.Parameter, nn.Parameter]] = []

    @classmethod
    def is_possible(cls, model: ConditionedModel) -> bool:
        """Whether a model's backbone can run in bfloat16 alone: a Transformer whose weights may be rounded."""
        placement = model.placement
        runs_whole = placement.mixes_precisions or model.padded_length is not None
        return model.quantised is None and placement.is_pretrained and not runs_whole

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._model,)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Compute in bfloat16 within a block, without gradients."""
        if self._seen is None or self._seen[0] != self._model.trainings or self._seen[1].sees_change():
            self._copy()
        try:
            for place, name, _, copy in self._copies:
                place[name] = copy
            yield
        finally:
            for place, name, own, _ in self._copies:
                place[name] = own

    def _copy(self) -> None:
        """Round the weights; one that several modules share is rounded once."""
        self._seen = self._model.trainings, Watch([self._model.backbone])
        copies: dict[int, nn.Parameter] = {}
        self._copies = []
        for module in self._model.backbone.modules():
            for name, own in module._parameters.items():
                if own is None or not own.is_floating_point() or own.dtype == torch.bfloat16:
                    continue
                if id(own) not in copies:
                    copies[id(own)] = nn.Parameter(own.detach().to(torch.bfloat16), requires_grad=False)
                self._copies.append((module._parameters, name, own, copies[id(own)]))
