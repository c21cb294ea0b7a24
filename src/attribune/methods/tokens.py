"""``tokens``: attribute values as learned control tokens in front of the text."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from pydantic import PositiveFloat
from torch import nn

from attribune import functional
from attribune.backbones.placement import Placement
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Embedded, Method
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, Point
from attribune.methods.host import Host
from attribune.methods.shapes import InputIds, Mask


class FrontMethodConfig(AttributeMethodConfig):
    """Settings of methods that put vectors before the text."""

    points: ClassVar[tuple[Point, ...]] = ("embed",)

    def refusal(self, placement: Placement) -> str | None:
        """Return why no state of the text would depend on vectors before it; None if they do."""
        if not placement.reads_ahead:
            return super().refusal(placement)
        return (
            f"{self.name}: it puts the values before the text, but the states of {placement.family} do not depend on "
            "earlier tokens: choose another method, such as upa, or another backbone"
        )


class Tokens(FrontMethodConfig):
    """Every value is a token in front of the text (Amplayo, Yoo and Lee 2022).

    The token has a learned embedding and is right after the first special token of the text; in a model that writes,
    before it, since the state of that token chooses the first one written. The values' tokens have positions of their
    own and count towards the length limit; a missing value has attention mask 0. The document vector is pooled from the
    text's tokens only, which attend to the values. The backbone is fine-tuned by default.

    Args:
        initial_vector: standard deviation of the initial embeddings.
    """

    name: ClassVar[str] = "tokens"
    default_tuning: ClassVar[str] = "full"

    initial_vector: PositiveFloat = 0.02

    def build(self, host: Host) -> Method:
        """Build one table of embeddings per attribute."""
        return _TokensMethod(self, host)


class _TokensMethod(AttributeMethod):
    def __init__(self, config: Tokens, host: Host) -> None:
        initial = partial(nn.init.normal_, std=config.initial_vector)
        super().__init__(config, host, sizes=[host.embedding] * len(host.slots), initial=initial)
        self.after_first = host.has_start_token
        self.extra_positions = sum(slots.count for slots in host.slots)

    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        assert condition.ids is not None
        # Later chunks of a document do not begin with its special token.
        first_chunk = torch.arange(input_ids.shape[0], device=input_ids.device) % condition.chunks == 0
        values = [self.look_up(number, slots.of(condition.ids)) for number, slots in enumerate(self.slots)]
        tokens = torch.cat(values, dim=1)
        after_first = first_chunk & self.after_first
        return Embedded(
            *functional.control_tokens(
                embeddings(input_ids), attention_mask, tokens, condition.ids != 0, after_first=after_first
            )
        )
