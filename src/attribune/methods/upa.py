"""``upa`` and ``la``: attention pooling, with and without the attributes (Chen et al. 2016)."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Method, Pool, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import MethodConfig, Point, VectorMethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget, own_tensors
from attribune.methods.shapes import Documents, Mask, States


class Upa(VectorMethodConfig):
    """Attention pooling that depends on the attributes (Chen et al. 2016).

    The document vector is ``sum_t alpha_t h_t``, alpha the softmax of ``v^T tanh(W_h h_t + sum_j W_j a_j + b)``.
    Chen et al. 2016, *Neural Sentiment Classification with User and Product Attention*, equations 2 and 3, on the last
    states of the backbone, which is fine-tuned by default. On the backbone ``hierarchical`` the words of a sentence
    are pooled in the same way, with parameters of their own and the same attribute vectors.

    Args:
        attention_size: A, the inner size; by default the hidden size.
    """

    name: ClassVar[str] = "upa"
    points: ClassVar[tuple[Point, ...]] = ("pool",)
    weighs_states: ClassVar[bool] = True
    default_tuning: ClassVar[str] = "full"

    attention_size: PositiveInt | None = None

    def build(self, host: Host) -> Method:
        """Build one attention over the tokens, and one over the words of sentences."""
        return _UpaMethod(self, host)


class La(MethodConfig):
    """Attention pooling without attributes (Chen et al. 2016).

    The document vector is ``sum_t alpha_t h_t``, alpha the softmax of ``v^T tanh(W_h h_t + b)``.
    The "local semantic attention" of Chen et al. 2016, equation 2 without user and product: a method without
    attributes, to compare with ``upa``. The backbone is fine-tuned by default.

    Args:
        attention_size: A, the inner size; by default the hidden size.
    """

    name: ClassVar[str] = "la"
    points: ClassVar[tuple[Point, ...]] = ("pool",)
    weighs_states: ClassVar[bool] = True
    default_tuning: ClassVar[str] = "full"

    attention_size: PositiveInt | None = None

    def build(self, host: Host) -> Method:
        """Build one attention over the tokens, and one over the words of sentences."""
        return _LaMethod(self, host)


class WordAttention(SiteModule):
    """Attention over the words of sentences in place of their mean, with the attribute vectors of the sentence's row.

    Args:
        width: of the attribute vectors side by side; 0 for attention without attributes.
    """

    def __init__(self, H: int, A: int, width: int) -> None:
        super().__init__()
        draw_attention(self, H, A, width)

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "N H"], condition: Condition
    ) -> Float[Tensor, "N H"]:
        """Pool the states of words, of which the module has made `output`."""
        hidden, words, rows = inputs
        a = condition.vectors()[rows] if condition.values else None
        return attend(self, hidden.to(output.dtype), words, a)


def draw_attention(module: nn.Module, H: int, A: int, width: int) -> None:
    """Give a module the parameters of `functional.attention_pool`, without W for no attributes."""
    module.W_h = nn.Parameter(torch.randn(A, H) * H**-0.5)
    if width:
        module.W = nn.Parameter(torch.randn(A, width))
    module.b = nn.Parameter(torch.zeros(A))
    module.v = nn.Parameter(torch.randn(A) * A**-0.5)


def attend(module: nn.Module, hidden: Tensor, mask: Tensor, a: Tensor | None) -> Tensor:
    """Pool states by the attention of a module, with the attribute vectors of each row, if any."""
    W_h, b, v = (module.get_parameter(name) for name in ("W_h", "b", "v"))
    a = hidden.new_zeros(hidden.shape[0], 0) if a is None else a
    W = module.get_parameter("W") if a.shape[1] else W_h.new_zeros(b.shape[0], 0)
    return functional.attention_pool(hidden, mask, a, W_h, W, b, v)


class _UpaMethod(VectorMethod):
    def __init__(self, config: Upa, host: Host) -> None:
        super().__init__(config, host)
        A, H, width = config.attention_size or host.hidden, host.hidden, len(host.slots) * config.vector_size
        draw_attention(self, H, A, width)
        for site in host.at("word_pool"):
            self.add_site(site, WordAttention(site.features, config.attention_size or site.features, width))

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        return attend(self, self.in_own_precision(hidden), attention_mask, condition.vectors())

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into attention without attributes, whose bias has what the values add."""
        (a,) = condition.vectors()
        tensors = own_tensors(self, without="tables")
        for name in [name for name in tensors if name.rpartition(".")[2] == "W"]:
            tensors[f"{name[:-1]}b"] = tensors[f"{name[:-1]}b"] + tensors.pop(name) @ a
        return MergedMethod(config=La(attention_size=cast(Upa, config).attention_size), tensors=tensors)


class _LaMethod(Method):
    def __init__(self, config: La, host: Host) -> None:
        super().__init__()
        draw_attention(self, host.hidden, config.attention_size or host.hidden, 0)
        for site in host.at("word_pool"):
            self.add_site(site, WordAttention(site.features, config.attention_size or site.features, 0))

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        return attend(self, self.in_own_precision(hidden), attention_mask, None)
