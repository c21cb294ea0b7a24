"""Combinations: several methods in one model, written as a sum of their names, such as ``first+second``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

from pydantic import Field, field_validator, model_validator
from torch import nn

from attribune.backbones.placement import Placement
from attribune.errors import ConfigError
from attribune.methods.base import Embedded, Method, Pool
from attribune.methods.condition import Condition, ConditionHolder
from attribune.methods.config import MethodConfig, Point
from attribune.methods.dropout import draw_for_dropout
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget
from attribune.methods.plain import Plain
from attribune.methods.shapes import AttributeIds, Documents, DropoutDraw, InputIds, Logits, Mask, States

_ONE_EACH: tuple[Point, ...] = ("embed", "encode", "pool", "classify")


class Combined(MethodConfig):
    """Several methods that act in one model, each with its own vectors, sharing the draw of the attribute dropout.

    Any number may act at the sites, in the order in which they are named; at every other point only one. The default
    tuning of the backbone is that of the first.

    Args:
        parts: the settings of the methods.

    Raises:
        ConfigError: for methods that cannot be combined.
    """

    name: ClassVar[str] = "combined"

    parts: tuple[MethodConfig, ...] = Field(description="the settings of two or more single methods")

    @field_validator("parts")
    @classmethod
    def _are_single(cls, parts: tuple[MethodConfig, ...]) -> tuple[MethodConfig, ...]:
        if any(isinstance(part, Combined) for part in parts):
            raise ValueError("a combination of combinations")
        return parts

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        names = [part.name for part in self.parts]
        name = "+".join(names)
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"method {name!r}: a combination needs two or more different methods")
        if idle := [part.name for part in self.parts if not part.points]:
            raise ConfigError(f"method {name!r}: {idle[0]!r} acts nowhere; leave it out")
        if alone := [part.name for part in self.parts if part.stands_alone]:
            raise ConfigError(f"method {name!r}: {alone[0]!r} is for a plain model: leave the others out")
        counts = Counter(point for part in self.parts for point in part.points)
        for point in _ONE_EACH:
            if counts[point] > 1:
                both = " and ".join(part.name for part in self.parts if point in part.points)
                raise ConfigError(
                    f"method {name!r}: {both} both act at the point {point!r}, where there is room for one: "
                    "leave one out"
                )
        # Attributes of the class in single methods, here of the instance.
        self.__dict__ |= {
            "name": name,
            "points": tuple(dict.fromkeys(point for part in self.parts for point in part.points)),
            "default_tuning": self.parts[0].default_tuning,
            "uses_attributes": any(part.uses_attributes for part in self.parts),
            "reads_descriptions": any(part.reads_descriptions for part in self.parts),
            "has_classifiers": any(part.has_classifiers for part in self.parts),
        }
        return self

    @property
    def written_dropout(self) -> float:
        """The highest probability of the methods."""
        return max(part.written_dropout for part in self.parts)

    @property
    def is_trained_alone(self) -> bool:
        """Whether one of the methods is trained in one process."""
        return any(part.is_trained_alone for part in self.parts)

    def build(self, host: Host) -> Method:
        """Build the modules of all methods."""
        return _CombinedMethod(self, host)

    def refusal(self, placement: Placement) -> str | None:
        """Return why one of the methods cannot act in a family; None if all can."""
        return next((refusal for part in self.parts if (refusal := part.refusal(placement)) is not None), None)

    def attribute_refusal(self, names: Sequence[str]) -> str | None:
        """Return why one of the methods cannot read these attributes; None if all can."""
        return next((refusal for part in self.parts if (refusal := part.attribute_refusal(names)) is not None), None)

    def word_options(self, backbone: str, *, attributes: int) -> dict[str, Any]:
        """Return the options that the methods need of a backbone without pretraining."""
        each = (part.word_options(backbone, attributes=attributes) for part in self.parts)
        return {name: value for options in each for name, value in options.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the name, and under each method's name its options."""
        return {"name": self.name} | {part.name: part.model_dump() for part in self.parts}


class _CombinedMethod(Method):
    def __init__(self, config: Combined, host: Host) -> None:
        super().__init__()
        self.slots = tuple(host.slots)
        self.parts = nn.ModuleList(part.build_within(host) for part in config.parts)
        self.extra_positions = sum(part.extra_positions for part in self._each())
        self.document_size = next((part.document_size for part in self._each() if part.document_size), None)
        self.unused = tuple(name for part in self._each() for name in part.unused)
        main = math.prod(part.loss_weights[0] for part in self._each())
        self.loss_weights = (main, *(weight for part in self._each() for weight in part.loss_weights[1:]))
        self.pads_right = any(part.pads_right for part in self._each())
        self.extends_attention = any(part.extends_attention for part in self._each())
        for index, (part, settings) in enumerate(zip(self._each(), config.parts, strict=True)):
            part.holder = _PartHolder(self.holder, index)
            overridden = {point for point in _ONE_EACH if getattr(type(part), point) is not getattr(Method, point)}
            if overridden != set(settings.points) - {"sites"}:
                raise ConfigError(
                    f"method {settings.name!r} acts at {', '.join(sorted(overridden)) or 'sites'}, but its points say "
                    f"{', '.join(settings.points)}: correct them, since a sum goes by them"
                )
        self.acting = {point: index for index, part in enumerate(config.parts) for point in part.points}

    def _each(self) -> list[Method]:
        return [cast(Method, part) for part in self.parts]

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        """Collect the conditions of all methods, which share one draw of attribute dropout."""
        if self.training and self.slots and attribute_ids is not None and draw is None:
            draw = draw_for_dropout(attribute_ids, self.slots)
        parts = tuple(part.condition(attribute_ids, rows, draw) for part in self._each())
        return Condition(rows=rows, parts=parts)

    def planned(self, attribute_ids: AttributeIds, rows: int) -> Condition | None:
        """Return the condition in which those methods that have plans act by them."""
        parts = [part.planned(attribute_ids, rows) for part in self._each()]
        if not any(parts):
            return None
        each = zip(parts, self._each(), strict=True)
        return Condition(rows=rows, parts=tuple(found or part.condition(attribute_ids, rows) for found, part in each))

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        configs = cast(Combined, config).parts
        merged = [
            method.merge(own, part, target)
            for method, own, part in zip(self._each(), configs, condition.parts, strict=True)
        ]
        self._check_apart([bool(part.backbone or part.low_rank) for part in merged])
        remaining = [part for part in merged if part.config.points]
        tensors = {
            (f"parts.{number}.{name}" if len(remaining) > 1 else name): tensor
            for number, part in enumerate(remaining)
            for name, tensor in part.tensors.items()
        }
        remaining_configs = tuple(part.config for part in remaining)
        return MergedMethod(
            config=Combined(parts=remaining_configs) if len(remaining) > 1 else next(iter(remaining_configs), Plain()),
            tensors=tensors,
            backbone={name: tensor for part in merged for name, tensor in part.backbone.items()},
            head=next((part.head for part in merged if part.head is not None), None),
            low_rank=tuple(low_rank for part in merged for low_rank in part.low_rank),
        )

    def _check_apart(self, merged: list[bool]) -> None:
        """Refuse changes of weights at a site where another method acts too."""
        seen: dict[str, bool] = {}
        for part, into_weights in zip(self._each(), merged, strict=True):
            paths = {site.path for method in part.methods() for site in method.acts_at}
            for path in sorted(paths & set(seen)):
                if into_weights or seen[path]:
                    raise ConfigError(
                        f"two of the methods act at {path}, one after the other, and one of them changes it"
                    )
            seen |= dict.fromkeys(paths, into_weights)

    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        method, condition = self._at("embed", condition)
        return method.embed(input_ids, attention_mask, condition, embeddings)

    def encode(self, hidden: States, attention_mask: Mask, condition: Condition) -> States:
        method, condition = self._at("encode", condition)
        return method.encode(hidden, attention_mask, condition)

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        method, condition = self._at("pool", condition)
        return method.pool(hidden, attention_mask, condition, default)

    def classify(self, document: Documents, condition: Condition, head: nn.Linear) -> Logits:
        method, condition = self._at("classify", condition)
        return method.classify(document, condition, head)

    def _at(self, point: Point, condition: Condition) -> tuple[Method, Condition]:
        """Return the method at a point, or the first if there is none, and its condition."""
        index = self.acting.get(point, 0)
        return self._each()[index], condition.parts[index]

    def first_layer(self) -> int | None:
        return min((layer for part in self._each() if (layer := part.first_layer()) is not None), default=None)

    def install(self, backbone: nn.Module) -> None:
        for part in self._each():
            part.install(backbone)


class _PartHolder(ConditionHolder):
    """Provides one method with its part of the condition of a combination."""

    def __init__(self, combination: ConditionHolder, index: int) -> None:
        super().__init__()
        self._combination, self._index = combination, index

    @property
    def current(self) -> Condition:
        return self._combination.current.parts[self._index]
