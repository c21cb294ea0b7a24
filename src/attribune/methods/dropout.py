"""Attribute dropout (Amplayo, Yoo and Lee 2022, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attribune import functional
from attribune.methods.shapes import AttributeIds, DropoutDraw
from attribune.schema.attributes import Slots


def draw_for_dropout(attribute_ids: AttributeIds, slots: Sequence[Slots]) -> DropoutDraw:
    """Draw a random number between 0 and 1 for each (row, attribute)."""
    return torch.rand(attribute_ids.shape[0], len(slots), device=attribute_ids.device)


def drop_attributes(
    attribute_ids: AttributeIds, slots: Sequence[Slots], rate: float, draw: DropoutDraw | None = None
) -> AttributeIds:
    """Hide each attribute of each row with probability `rate`, by new random numbers if none are given.

    Of a hierarchy, rows that keep it lose some lower levels with the same probability, so that the levels above learn
    to stand for values that are not known.
    """
    draw = draw_for_dropout(attribute_ids, slots) if draw is None else draw
    kept = functional.attribute_dropout(attribute_ids, draw, [own.count for own in slots], r_drop=rate)
    if not any(own.is_nested and own.count > 1 for own in slots):
        return kept
    parts = [own.of(kept) for own in slots]
    for number, own in enumerate(slots):
        if own.is_nested and own.count > 1:
            parts[number] = _without_lower_levels(parts[number], draw[:, number], rate)
    return torch.cat(parts, dim=1)


def _without_lower_levels(
    ids: Int[Tensor, "B count"], draw: Float[Tensor, " B"], rate: float
) -> Int[Tensor, "B count"]:
    """Hide the lower levels of rows whose draw is the next above `rate`; each number of levels is as likely."""
    count = ids.shape[1]
    part = (draw - rate) / rate  # from 0 to 1 in the rows that lose levels
    levels = torch.where(part < 1, 1 + (part * (count - 1)).floor(), count)
    return ids * (torch.arange(count, device=ids.device) < levels.unsqueeze(1))
