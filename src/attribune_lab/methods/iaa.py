"""``iaa``: the interactive attributes attention model (Zhang, Wang and Zhang 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.methods.base import Method, Pool, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.host import Host
from attribune.methods.shapes import Documents, Mask, States
from attribune.methods.upa import WordAttention, attend, draw_attention
from attribune_lab import functional
from attribune_lab.methods.huapa import BranchMethod, BranchMethodConfig


class Iaa(BranchMethodConfig):
    """Three hierarchies, for the text and for two attributes, and the interaction of the attributes.

    Zhang, Wang and Zhang 2021, *Personalized sentiment classification of customer reviews via an interactive attributes
    attention model*, as the authors' code has it. That of the text is pooled by attention, those of the attributes by
    their products with the states. The document vector is ``[m; d_u; d_p; d_text]``; in training its four parts have
    classifiers of their own, with the loss ``0.35 CE + 0.25 (CE_m + CE_text + CE_p + CE_u)``. It needs the backbone
    ``hierarchical``, which is trained in full, and exactly two attributes. The paper's classifiers have a layer of 50
    (`head_size`).

    Args:
        attention_size: A, the inner size of the attention.
    """

    name: ClassVar[str] = "iaa"

    vector_size: PositiveInt = 100
    attention_size: PositiveInt = 50

    def attribute_refusal(self, names: Sequence[str]) -> str | None:
        """Return why there must be two attributes; None if there are."""
        if len(names) == 2:
            return None
        return f"iaa: it lets two attributes act on each other: name two of them, not {', '.join(names)}"

    def branches(self, attributes: int) -> int:
        """Return one branch for the text, and one for each attribute."""
        return 1 + attributes

    def build(self, host: Host) -> Method:
        """Build the attention over words and sentences, the interaction, and the classifiers."""
        return _IaaMethod(self, host)


class _BilinearAttention(nn.Module):
    """The parameters of `functional.bilinear_attention_pool`."""

    def __init__(self, H: int, A: int, Z: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(Z, H) * Z**-0.5)
        self.W_a = nn.Parameter(torch.randn(A, H) * H**-0.5)
        self.c = nn.Parameter(torch.zeros(A))
        self.v = nn.Parameter(torch.randn(A) * A**-0.5)

    def forward(self, hidden: Tensor, mask: Tensor, a: Tensor) -> Tensor:
        return functional.bilinear_attention_pool(hidden, mask, a, self.W, self.W_a, self.c, self.v)


class _BilinearWords(SiteModule):
    """Bilinear attention over the words of sentences, with the attribute of this number."""

    def __init__(self, attribute: int, H: int, A: int, Z: int) -> None:
        super().__init__()
        self.attribute, self.attention = attribute, _BilinearAttention(H, A, Z)

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "N H"], condition: Condition
    ) -> Float[Tensor, "N H"]:
        hidden, words, rows = inputs
        a = condition.vectors_per_attribute()[self.attribute][rows]
        return cast(Tensor, self.attention(hidden.to(output.dtype), words, a))


class _TextWords(WordAttention):
    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "N H"], condition: Condition
    ) -> Float[Tensor, "N H"]:
        hidden, words, _ = inputs
        return attend(self, hidden.to(output.dtype), words, None)


class _IaaMethod(BranchMethod):
    def __init__(self, config: Iaa, host: Host) -> None:
        if (refusal := config.attribute_refusal([slots.name for slots in host.slots])) is not None:
            raise ConfigError(refusal)
        super().__init__(config, host)
        H, A, Z = self.branch_size, config.attention_size, config.vector_size
        text, *others = host.at("word_pool")
        self.add_site(text, _TextWords(text.features, A, 0))
        for number, site in enumerate(others):
            self.add_site(site, _BilinearWords(number, site.features, A, Z))
        self.text_attention = nn.Module()
        draw_attention(self.text_attention, H, A, 0)
        self.attention = nn.ModuleList(_BilinearAttention(H, A, Z) for _ in host.slots)
        self.W_1, self.W_2 = (nn.Parameter(torch.randn(Z, Z) * Z**-0.5) for _ in range(2))
        self.c_1, self.c_2 = (nn.Parameter(torch.zeros(Z)) for _ in range(2))
        self.heads = nn.ModuleList(_head(size, host) for size in (2 * Z, H, H, H))
        self.document_size = 2 * Z + 3 * H
        self.loss_weights = (0.35, *[0.25] * 4)

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        text, *others = self.split(hidden)
        u, p = vectors = condition.vectors_per_attribute()
        m = functional.attribute_interaction(u, p, self.W_1, self.c_1, self.W_2, self.c_2)
        each = zip(self.attention, others, vectors, strict=True)
        d_u, d_p = (attention(states, attention_mask, a) for attention, states, a in each)
        parts = [m, d_u, d_p, attend(self.text_attention, text, attention_mask, None)]
        if self.training:
            condition.auxiliary.extend(head(part) for head, part in zip(self.heads, parts, strict=True))
        return torch.cat(parts, dim=-1)


def _head(size: int, host: Host) -> nn.Module:
    """Return a classifier of the kind of the model's own."""
    if host.head_size is None:
        return nn.Linear(size, host.outputs)
    return nn.Sequential(nn.Linear(size, host.head_size), nn.Tanh(), nn.Linear(host.head_size, host.outputs))
