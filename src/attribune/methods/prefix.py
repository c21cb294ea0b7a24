"""``prefix``: vectors made from the attributes in front of the text, or beside the keys and values of every layer."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.extra_attention import Extra, attach_extra_attention
from attribune.backbones.placement import Placement
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Embedded, Method, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import MethodConfig, Point, VectorMethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget
from attribune.methods.shapes import AttributeIds, DropoutDraw, InputIds, Mask
from attribune.methods.tokens import FrontMethodConfig

Place = Literal["input", "attention"]
_POINTS: dict[Place, tuple[Point, ...]] = {"input": ("embed",), "attention": ("sites",)}


class Prefix(FrontMethodConfig, VectorMethodConfig):
    """Vectors in front of the text that depend on the attributes, at the input or in the attention of each layer.

    They are k vectors ``P_i = P_0i + sum_j Q_ij a_j``. At the ``input`` they have the places of token embeddings:
    prompt tuning (Lester, Al-Rfou and Constant 2021) with a part that depends on the attributes; with one vector it is
    Embedding-to-Prefix (Huber et al. 2025). The vectors have positions of their own and count towards the length limit.
    The document vector is pooled from the text's tokens only, which attend to them. In the ``attention`` every layer
    has k further keys and values, each with P_0 and Q of its own: prefix tuning (Li and Liang 2021), as in Control
    Prefixes (Clive, Cao and Rei 2022). These have no positions, and all tokens attend to them. Q starts at zero, so
    that all values begin with the same prefix.

    Args:
        place: ``input`` or ``attention``.
        length: k.
        initial_prefix: standard deviation of the initial P_0.
        personal: whether the vectors depend on the attributes; without, it is prompt or prefix tuning of the text
            alone.
    """

    name: ClassVar[str] = "prefix"

    place: Place = "input"
    length: PositiveInt = 1
    initial_prefix: PositiveFloat = 0.02
    personal: bool = True

    def model_post_init(self, context: Any) -> None:
        """Set what depends on the options here."""
        self.__dict__["points"] = _POINTS[self.place]
        self.__dict__["uses_attributes"] = self.personal

    def refusal(self, placement: Placement) -> str | None:
        """Return why the vectors cannot stand there in a family; None if they can."""
        if self.place == "input":
            return super().refusal(placement)
        refusal = MethodConfig.refusal(self, placement)
        if refusal is not None or placement.no_extra_attention is None:
            return refusal
        return (
            f"prefix: the attention of {placement.family} cannot take a prefix, "
            f"because {placement.no_extra_attention}: choose place=input, or another backbone"
        )

    def build(self, host: Host) -> Method:
        """Build P_0 and Q, and one table of vectors per attribute."""
        return _InputPrefix(self, host) if self.place == "input" else _AttentionPrefix(self, host)


class _PrefixMethod(Method):
    """A prefix at either place; `personal` has the vectors of the attributes."""

    def __init__(self, config: Prefix, host: Host) -> None:
        super().__init__()
        self.personal = VectorMethod(config, host) if config.personal else None
        self.width = config.vector_size * len(host.slots) if config.personal else 0

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        if self.personal is None:
            return super().condition(attribute_ids, rows, draw)
        return self.personal.condition(attribute_ids, rows, draw)

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into the method without attributes, whose prefix is that of the row's values."""
        prefixes = {name: module for name, module in self.named_modules() if isinstance(module, _SoftPrefix)}
        return MergedMethod(
            config=Prefix(**config.model_dump() | {"personal": False}),
            tensors={f"{name}.P_0": module(condition, rows=1)[0].detach() for name, module in prefixes.items()},
        )


class _SoftPrefix(SiteModule):
    """P_0 and, for attributes with vectors of a width together, Q."""

    def __init__(self, config: Prefix, size: int, *, width: int) -> None:
        super().__init__()
        self.P_0 = nn.Parameter(torch.randn(config.length, size) * config.initial_prefix)
        self.Q = nn.Parameter(torch.zeros(config.length, size, width)) if width else None

    def forward(self, condition: Condition, *, rows: int) -> Float[Tensor, "B k E"]:
        if self.Q is None:
            return self.P_0.expand(rows, -1, -1)
        return functional.soft_prefix(condition.vectors(), self.P_0, self.Q)


class _InputPrefix(_PrefixMethod):
    def __init__(self, config: Prefix, host: Host) -> None:
        super().__init__(config, host)
        self.extra_positions = config.length
        self.prefix = _SoftPrefix(config, host.embedding, width=self.width)

    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        prefix = self.prefix(condition, rows=len(input_ids))
        present = attention_mask.new_ones(prefix.shape[:2])
        return Embedded(
            *functional.control_tokens(embeddings(input_ids), attention_mask, prefix, present, after_first=False)
        )


class _AttentionPrefix(_PrefixMethod):
    extends_attention = True

    def __init__(self, config: Prefix, host: Host) -> None:
        super().__init__(config, host)
        for keys, values in zip(host.at("k_proj"), host.at("v_proj"), strict=True):
            self.acts_at.append(keys)
            features = {"K": keys.features, "V": values.features}
            self.sites.append(
                nn.ModuleDict({name: _SoftPrefix(config, size, width=self.width) for name, size in features.items()})
            )

    def install(self, backbone: nn.Module) -> None:
        """Let the attention of every layer read the prefix."""
        for number, site in enumerate(self.acts_at):
            attention = backbone.get_submodule(site.path.rpartition(".")[0])
            attach_extra_attention(backbone, attention, partial(self._extra, number))

    def _extra(self, number: int) -> Extra | None:
        """Return the keys and values of a layer, unless the pass or the layer is one without them."""
        condition = self.holder.current
        if condition.is_bare:
            return None
        if self.ablation is not None and self.acts_at[number].layer in self.ablation.layers:
            if self.ablation.columns is None:
                return None
            condition = condition.hidden()
        prefixes = cast(nn.ModuleDict, self.sites[number])
        return Extra(*(prefixes[name](condition, rows=condition.rows) for name in ("K", "V")))
