"""Attribute dropout (Amplayo, Yoo and Lee 2022, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attribune.methods.shapes import AttributeIds, DropoutDraw
from attribune.schema.attributes import Slots

__all__ = ["draw_for_dropout", "drop_attributes"]


def draw_for_dropout(attribute_ids: AttributeIds, slots: Sequence[Slots]) -> DropoutDraw:
    """Draw a random number between 0 and 1 for each (row, attribute)."""
    return torch.rand(attribute_ids.shape[0], len(slots), device=attribute_ids.device)


def drop_attributes(
    attribute_ids: AttributeIds, slots: Sequence[Slots], rate: float, draw: DropoutDraw | None = None
) -> AttributeIds:
    """Hide each attribute of each row with probability `rate`: attribute dropout (Injectors, section 4).

    Nothing is rescaled: a dropped attribute is encoded as one never seen in training, with id 0 in all its slots. An
    attribute is dropped if its random number in `draw` is below the rate.
    """
    keep = (draw_for_dropout(attribute_ids, slots) if draw is None else draw) >= rate
    return attribute_ids * torch.cat([keep[:, j : j + 1].expand(-1, s.count) for j, s in enumerate(slots)], dim=1)
