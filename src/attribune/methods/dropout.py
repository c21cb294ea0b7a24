"""Attribute dropout (Amplayo, Yoo and Lee 2022, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attribune import functional
from attribune.methods.shapes import AttributeIds, DropoutDraw
from attribune.schema.attributes import Slots

__all__ = ["draw_for_dropout", "drop_attributes"]


def draw_for_dropout(attribute_ids: AttributeIds, slots: Sequence[Slots]) -> DropoutDraw:
    """Draw a random number between 0 and 1 for each (row, attribute)."""
    return torch.rand(attribute_ids.shape[0], len(slots), device=attribute_ids.device)


def drop_attributes(
    attribute_ids: AttributeIds, slots: Sequence[Slots], rate: float, draw: DropoutDraw | None = None
) -> AttributeIds:
    """Hide each attribute of each row with probability `rate`, by new random numbers if none are given."""
    draw = draw_for_dropout(attribute_ids, slots) if draw is None else draw
    return functional.attribute_dropout(attribute_ids, draw, [own.count for own in slots], r_drop=rate)
