"""Combinations: several methods in one model, written as a sum of their names, such as ``first+second``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from attribune.condition import Condition, ConditionHolder, draw_for_dropout
from attribune.errors import ConfigError
from attribune.kept import KeptWeights
from attribune.methods.base import Embedded, Method, Pool
from attribune.methods.fixed import Around, Fixed
from attribune.methods.host import Host
from attribune.methods.plain import Plain
from attribune.methods.settings import MethodConfig, Point

__all__ = ["Combined"]

_ONE_EACH: tuple[Point, ...] = ("embed", "encode", "pool", "classify")


@dataclass(frozen=True, kw_only=True)
class Combined(MethodConfig):
    """Several methods that act in one model, each with its own vectors, sharing the draw of the attribute dropout.

    Any number may act at the sites, where they follow one another as they are named; at every other point only one.
    What of the backbone learns is, unless told otherwise, the default of the first.

    Args:
        parts: the settings of the methods.

    Raises:
        ConfigError: for methods that do not go together.
    """

    name: ClassVar[str] = "combined"

    parts: tuple[MethodConfig, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.parts, list | tuple) or not all(
            isinstance(part, MethodConfig) and not isinstance(part, Combined) for part in self.parts
        ):
            raise ConfigError(f"parts is {self.parts!r}: give the settings of two or more single methods")
        object.__setattr__(self, "parts", tuple(self.parts))
        names = [part.name for part in self.parts]
        if len(self.parts) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"method {'+'.join(names)!r}: a combination needs two or more different methods")
        if empty := [part.name for part in self.parts if not part.points]:
            raise ConfigError(f"method {'+'.join(names)!r}: {empty[0]!r} acts nowhere; leave it out")
        counts = Counter(point for part in self.parts for point in part.points)
        for point in _ONE_EACH:
            if counts[point] > 1:
                both = " and ".join(part.name for part in self.parts if point in part.points)
                raise ConfigError(
                    f"method {'+'.join(names)!r}: {both} both act at the point {point!r}, where there is room for one: "
                    "leave one out"
                )
        # The class-wide facts of a single method are found from the parts here.
        object.__setattr__(self, "name", "+".join(names))
        object.__setattr__(self, "points", tuple(dict.fromkeys(p for part in self.parts for p in part.points)))
        object.__setattr__(self, "default_tuning", self.parts[0].default_tuning)
        object.__setattr__(self, "uses_attributes", any(part.uses_attributes for part in self.parts))

    def build(self, host: Host) -> Method:
        """The modules of all methods."""
        return _CombinedMethod(self, host)

    def to_dict(self) -> dict[str, Any]:
        """The name, and under each method's name its options."""
        options = {part.name: part.to_dict() for part in self.parts}
        return {"name": self.name} | {name: {k: v for k, v in o.items() if k != "name"} for name, o in options.items()}


class _CombinedMethod(Method):
    def __init__(self, config: Combined, host: Host) -> None:
        super().__init__()
        self.slots = tuple(host.slots)
        self.parts = nn.ModuleList(part.build(host) for part in config.parts)
        self.extra_positions = sum(part.extra_positions for part in self._each())
        self.pads_right = any(part.pads_right for part in self._each())
        for index, part in enumerate(self._each()):
            part.holder = _PartHolder(self.holder, index)
        for part, settings in zip(self._each(), config.parts, strict=True):
            overridden = {point for point in _ONE_EACH if getattr(type(part), point) is not getattr(Method, point)}
            if overridden != set(settings.points) - {"sites"}:
                raise ConfigError(
                    f"method {settings.name!r} acts at {', '.join(sorted(overridden)) or 'sites'}, but its points say "
                    f"{', '.join(settings.points)}: correct them, since a sum goes by them"
                )
        self.acting = {point: index for index, part in enumerate(config.parts) for point in part.points}

    def _each(self) -> list[Method]:
        return [cast(Method, part) for part in self.parts]

    def condition(self, attribute_ids: Tensor | None, rows: int, draw: Tensor | None = None) -> Condition:
        """The conditions of all methods, which hide the same attributes of a row in training."""
        if self.training and self.slots and attribute_ids is not None and draw is None:
            draw = draw_for_dropout(attribute_ids, self.slots)
        parts = tuple(part.condition(attribute_ids, rows, draw) for part in self._each())
        return Condition(rows=rows, parts=parts)

    def keep_weights(self, megabytes: float) -> None:
        """Let every method have its part."""
        for part in self._each():
            part.keep_weights(megabytes / len(self.parts))

    @property
    def kept_weights(self) -> Mapping[str, KeptWeights]:
        """What the methods keep."""
        return {name: kept for part in self._each() for name, kept in part.kept_weights.items()}

    def fixed(self, config: MethodConfig, condition: Condition, around: Around) -> Fixed:
        """What is left of all methods together."""
        settings = cast(Combined, config).parts
        parts = [
            part.fixed(own, one, around) for part, own, one in zip(self._each(), settings, condition.parts, strict=True)
        ]
        self._check_apart([bool(part.backbone or part.low_rank) for part in parts])
        left = [part for part in parts if part.config.points]
        tensors = {
            (f"parts.{number}.{name}" if len(left) > 1 else name): tensor
            for number, part in enumerate(left)
            for name, tensor in part.tensors.items()
        }
        configs = tuple(part.config for part in left)
        return Fixed(
            config=Combined(parts=configs) if len(left) > 1 else next(iter(configs), Plain()),
            tensors=tensors,
            backbone={name: tensor for part in parts for name, tensor in part.backbone.items()},
            head=next((part.head for part in parts if part.head is not None), None),
            low_rank=tuple(one for part in parts for one in part.low_rank),
        )

    def _check_apart(self, merged: list[bool]) -> None:
        """Refuse weights that would change in front of what acted before them, or twice."""
        seen: dict[str, bool] = {}
        for part, into_weights in zip(self._each(), merged, strict=True):
            within = [one for one in part.modules() if isinstance(one, Method)]
            paths = {site.path for one in within for site in one.acts_at}
            for path in sorted(paths & set(seen)):
                if into_weights or seen[path]:
                    raise ConfigError(
                        f"two of the methods act at {path}, one after the other, and one of them changes it"
                    )
            seen |= dict.fromkeys(paths, into_weights)

    def embed(
        self, input_ids: Tensor, attention_mask: Tensor, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        """What the method at this point makes of the ids."""
        method, condition = self._at("embed", condition)
        return method.embed(input_ids, attention_mask, condition, embeddings)

    def encode(self, hidden: Tensor, attention_mask: Tensor, condition: Condition) -> Tensor:
        """What the method at this point makes of the states."""
        method, condition = self._at("encode", condition)
        return method.encode(hidden, attention_mask, condition)

    def pool(self, hidden: Tensor, attention_mask: Tensor, condition: Condition, default: Pool) -> Tensor:
        """What the method at this point makes of the states."""
        method, condition = self._at("pool", condition)
        return method.pool(hidden, attention_mask, condition, default)

    def classify(self, document: Tensor, condition: Condition, head: nn.Linear) -> Tensor:
        """What the method at this point makes of the document vector."""
        method, condition = self._at("classify", condition)
        return method.classify(document, condition, head)

    def _at(self, point: Point, condition: Condition) -> tuple[Method, Condition]:
        """The method that acts at a point, any of them where none does, and its condition."""
        index = self.acting.get(point, 0)
        return self._each()[index], condition.parts[index]

    def install(self, backbone: nn.Module) -> None:
        """Hook the sites of all methods, in their order."""
        for part in self._each():
            part.install(backbone)


class _PartHolder(ConditionHolder):
    """Gives the sites of one method its part of the combination's condition."""

    def __init__(self, whole: ConditionHolder, index: int) -> None:
        super().__init__()
        self._whole, self._index = whole, index

    @property
    def current(self) -> Condition:
        """This method's part of the current condition."""
        return self._whole.current.parts[self._index]
