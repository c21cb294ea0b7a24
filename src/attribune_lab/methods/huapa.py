"""``huapa``: a hierarchy of attention for each attribute (Wu et al. 2018)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, Pool, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, Point
from attribune.methods.host import Host
from attribune.methods.shapes import Documents, Mask, States
from attribune.methods.upa import attend, draw_attention


class BranchMethodConfig(AttributeMethodConfig):
    """Settings of methods with a branch of the backbone ``hierarchical`` for each attribute.

    Args:
        vector_size: Z, the size of the attributes' vectors.
        initial_vector: r of the initial vectors, drawn from U(-r, r).
    """

    points: ClassVar[tuple[Point, ...]] = ("pool",)
    has_classifiers: ClassVar[bool] = True
    default_tuning: ClassVar[str] = "full"

    attribute_dropout: float = 0.0
    vector_size: PositiveInt = 200
    initial_vector: PositiveFloat = 0.01

    def branches(self, attributes: int) -> int:
        """Return the number of branches for a number of attributes."""
        return attributes

    def refusal(self, placement: Any) -> str | None:
        """Return why the method cannot act in a family; None if it can."""
        if placement.word_pool is not None:
            return super().refusal(placement)
        return (
            f"{self.name}: it reads the words of each sentence and then the sentences of the text, but backbones of "
            f"type {' or '.join(placement.model_types)} do not separate these levels: choose the backbone hierarchical"
        )

    def word_options(self, backbone: str, *, attributes: int) -> dict[str, Any]:
        """Return the number of branches."""
        return {"branches": self.branches(attributes)}


class BranchMethod(AttributeMethod):
    """A method whose branches have attention of their own over words and over sentences.

    Raises:
        ConfigError: for a backbone with another number of branches.
    """

    def __init__(self, config: BranchMethodConfig, host: Host) -> None:
        bound = config.initial_vector
        initial = partial(nn.init.uniform_, a=-bound, b=bound)
        super().__init__(config, host, sizes=[config.vector_size] * len(host.slots), initial=initial)
        sites, branches = host.at("word_pool"), config.branches(len(host.slots))
        if len(sites) != branches:
            raise ConfigError(
                f"{config.name}: the backbone's option branches is {len(sites)}: for the attributes "
                f"{', '.join(slots.name for slots in host.slots)} it must be {branches}; set it, or leave it out"
            )
        self.branch_size = host.hidden // branches

    def split(self, hidden: States) -> tuple[Tensor, ...]:
        """Return the states of each branch."""
        return torch.split(self.in_own_precision(hidden), self.branch_size, dim=-1)


class Huapa(BranchMethodConfig):
    """Each attribute has a hierarchy of its own, in which it steers the attention over words and over sentences.

    Wu et al. 2018, *Improving Review Representations with User Attention and Product Attention for Sentiment
    Classification*. The document vector is ``[d_1; ...; d_M]``; in training each d_m has a classifier of its own, with
    the loss ``0.4 CE + sum_m (0.6 / M) CE_m``. It needs the backbone ``hierarchical``, which is trained in full.

    Args:
        attention_size: A, the inner size; by default that of a state.
    """

    name: ClassVar[str] = "huapa"

    attention_size: PositiveInt | None = None

    def build(self, host: Host) -> Method:
        """Build two attentions and a classifier for each attribute."""
        return _HuapaMethod(self, host)


class _WordAttention(SiteModule):
    """Attention over the words of sentences, steered by the attribute of this number."""

    def __init__(self, attribute: int, H: int, A: int, Z: int) -> None:
        super().__init__()
        self.attribute = attribute
        draw_attention(self, H, A, Z)

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "N H"], condition: Condition
    ) -> Float[Tensor, "N H"]:
        hidden, words, rows = inputs
        return attend(self, hidden.to(output.dtype), words, condition.vectors_per_attribute()[self.attribute][rows])


class _HuapaMethod(BranchMethod):
    def __init__(self, config: Huapa, host: Host) -> None:
        super().__init__(config, host)
        H, M, Z = self.branch_size, len(host.slots), config.vector_size
        A = config.attention_size or H
        self.loss_weights = (0.4, *[0.6 / M] * M)
        self.attention = nn.ModuleList(nn.Module() for _ in range(M))
        self.heads = nn.ModuleList(nn.Linear(H, host.outputs) for _ in range(M))
        for number, (module, site) in enumerate(zip(self.attention, host.at("word_pool"), strict=True)):
            draw_attention(module, H, A, Z)
            self.add_site(site, _WordAttention(number, site.features, config.attention_size or site.features, Z))

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        each = zip(self.attention, self.split(hidden), condition.vectors_per_attribute(), strict=True)
        documents = [attend(module, states, attention_mask, a) for module, states, a in each]
        if self.training:
            condition.auxiliary.extend(cast(Tensor, head(d)) for head, d in zip(self.heads, documents, strict=True))
        return torch.cat(documents, dim=-1)
