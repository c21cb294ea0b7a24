"""``in-text``: the values of a row are written in front of its text."""

from __future__ import annotations

from typing import ClassVar

from attribune.backbones.placement import Placement
from attribune.methods.base import Method
from attribune.methods.config import AttributeMethodConfig, Point, Probability
from attribune.methods.host import Host


def written_refusal(placement: Placement, *, what: str = "in-text") -> str | None:
    """Return why no values can be written in front of the texts of a family, with the cure; None if they can.

    Args:
        what: writes them, in the words of the message.
    """
    if placement.states == "token":
        return None
    return (
        f"{what}: {placement.family} read the sentences of one text, and would "
        "count the values among them: choose another backbone"
    )


class InText(AttributeMethodConfig):
    """The plain backbone reads the values of a row, as words, in front of its text.

    A baseline that stores nothing for a value: what a name means is left to the backbone. Values that no training row
    has are written, too, missing ones are left out, and numbers are written as numbers. The backbone is fine-tuned by
    default.

    Args:
        attribute_dropout: probability that an attribute is not written in front of a training row, drawn once for each
            row.
    """

    name: ClassVar[str] = "in-text"
    points: ClassVar[tuple[Point, ...]] = ("text",)
    default_tuning: ClassVar[str] = "full"
    stands_alone: ClassVar[bool] = True
    reads_descriptions: ClassVar[bool] = False
    writes_values: ClassVar[bool] = True
    reads_chunks: ClassVar[bool] = False

    attribute_dropout: Probability = 0.1

    def refusal(self, placement: Placement) -> str | None:
        """Return why a family cannot read values in front of a text; None if it can."""
        return super().refusal(placement) or written_refusal(placement)

    def build(self, host: Host) -> Method:
        """Build a method without sites: the values are ids of the text."""
        return Method()
