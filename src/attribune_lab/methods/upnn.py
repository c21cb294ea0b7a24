"""``upnn``: a matrix for each value, which maps the words (Tang, Qin and Liu 2015)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune.backbones.placement import Placement
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Embedded, Method
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, Point
from attribune.methods.host import Host
from attribune.methods.shapes import Documents, InputIds, Logits, Mask
from attribune_lab import functional
from attribune_lab.backbones.options import WORD_MODELS

_WORD_TYPES = tuple(options.model_type for options in WORD_MODELS.values())


class Upnn(AttributeMethodConfig):
    """A matrix for each value, which transforms the words (Tang, Qin and Liu 2015).

    A word x_t becomes ``[U_1 x_t; ...; U_M x_t]``.
    Tang, Qin and Liu 2015, *Learning Semantic Representations of Users and Products for Document Level Sentiment
    Classification*. A matrix is of rank R and a diagonal, and begins near the identity, which is also that of a row
    without a value; the matrices of several values add up. The classifier reads a vector of each value beside the
    document's. The paper's backbone is ``tang-cnn``. It is trained in full.

    Args:
        rank: R, of a value's matrix.
        vector_size: Z, of the vectors that the classifier reads.
        initial_vector: r of the initial values beside the diagonal, drawn from U(-r, r).
        fused: whether a layer ``tanh(W [U_1 x_t; ...; U_M x_t] + b)`` brings words back to their own size, so that any
            backbone can read them.
    """

    name: ClassVar[str] = "upnn"
    points: ClassVar[tuple[Point, ...]] = ("embed", "classify")
    default_tuning: ClassVar[str] = "full"
    reads_descriptions: ClassVar[bool] = False  # a value of which nothing is known has the identity, and not zero

    attribute_dropout: float = 0.0
    rank: PositiveInt = 3
    vector_size: PositiveInt = 50
    initial_vector: PositiveFloat = 0.01
    fused: bool = False

    def refusal(self, placement: Placement) -> str | None:
        """Return why words cannot be larger than the backbone reads them; None if they can."""
        if self.fused or set(placement.model_types) <= set(_WORD_TYPES):
            return super().refusal(placement)
        return (
            f"upnn: it gives each word several vectors, but backbones of type {' or '.join(placement.model_types)} "
            "read only one: choose the backbone tang-cnn, or set fused to true"
        )

    def word_options(self, backbone: str, *, attributes: int) -> dict[str, Any]:
        """Return how many vectors a word has."""
        return {} if self.fused else {"input_vectors": attributes}

    def build(self, host: Host) -> Method:
        """Build one table for each attribute."""
        return _UpnnMethod(self, host)


class _UpnnMethod(AttributeMethod):
    def __init__(self, config: Upnn, host: Host) -> None:
        E, R, Z, M = host.embedding, config.rank, config.vector_size, len(host.slots)
        # Of the diagonal less 1, both factors and the vector in a row of a table: a row of zeros is the identity.
        self.sizes = (E, E * R, R * E, Z)
        initial = partial(_draw, size=E, bound=config.initial_vector)
        super().__init__(config, host, sizes=[sum(self.sizes)] * M, initial=initial)
        self.W_c = nn.Parameter(torch.randn(M * Z, host.outputs) * (M * Z) ** -0.5)
        self.fusion = nn.Linear(M * E, E) if config.fused else None

    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        assert condition.ids is not None
        given = embeddings(input_ids)
        x = self.in_own_precision(given)
        words = torch.cat([self._mapped(number, x, condition) for number in range(len(self.slots))], dim=-1)
        if self.fusion is not None:
            words = self.fusion(words).tanh()
        places = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        return Embedded(words.to(given.dtype), attention_mask, places)

    def _mapped(self, number: int, x: Float[Tensor, "B T E"], condition: Condition) -> Float[Tensor, "B T E"]:
        """Map words by the sum of the matrices of an attribute's values; by the identity without a value."""
        ids = self.slots[number].of(cast(Tensor, condition.ids))
        known, E = (ids != 0).unsqueeze(-1), self.sizes[0]
        beyond_one, U_1, U_2, _ = torch.split(self.look_up(number, ids) * known, list(self.sizes), dim=-1)
        B, count = ids.shape
        diagonal = known.sum(dim=1).clamp(min=1) + beyond_one.sum(dim=1)
        # The factors of several values stand side by side, so that their product is the sum of the products.
        U_1 = U_1.view(B, count, E, -1).transpose(1, 2).reshape(B, E, -1)
        return functional.value_matrix_words(x, diagonal, U_1, U_2.reshape(B, -1, E))

    def classify(self, document: Documents, condition: Condition, head: nn.Linear) -> Logits:
        vectors = [vectors[:, -self.sizes[-1] :] for vectors in condition.vectors_per_attribute()]
        return cast(Tensor, head(document)) + torch.cat(vectors, dim=-1) @ self.W_c


def _draw(table: Tensor, *, size: int, bound: float) -> None:
    nn.init.uniform_(table, -bound, bound)
    table[:, :size] = 0
