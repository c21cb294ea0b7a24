"""``hcsc``: attention for values with few texts (Amplayo et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune.functional import mean_tokens
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, Pool
from attribune.methods.condition import Condition, Values
from attribune.methods.config import AttributeMethodConfig, Point
from attribune.methods.host import Host
from attribune.methods.shapes import Documents, Mask, States
from attribune.methods.upa import attend, draw_attention
from attribune.schema.attributes import Slots
from attribune_lab import functional


class Hcsc(AttributeMethodConfig):
    """Texts of rare values are pooled by what other values have learned, those of frequent ones by their own vector.

    Amplayo et al. 2018, *Cold-Start Aware User and Product Attention for Sentiment Classification*. For each attribute
    the states are pooled twice, by the value's own vector (s) and by a vector composed of those of all values (t); the
    document is ``g ⊙ s + (1 - g) ⊙ t``, where g grows with the number of the value's training rows, and is 0 for a
    value that has none. A gate joins the attributes. In training the same classifier also reads s, t and the gated
    vector of each attribute, each with a loss of weight 1. The backbone is fine-tuned by default.

    Args:
        attention_size: A, the inner size of the attention; by default the hidden size.
        vector_size: Z, the size of the attributes' vectors; by default the hidden size.
        initial_vector: standard deviation of the initial vectors.
        reads_own: whether the composed vector of a row reads that of its own value, too.
    """

    name: ClassVar[str] = "hcsc"
    points: ClassVar[tuple[Point, ...]] = ("pool",)
    weighs_states: ClassVar[bool] = True
    default_tuning: ClassVar[str] = "full"

    attribute_dropout: float = 0.0
    attention_size: PositiveInt | None = None
    vector_size: PositiveInt | None = None
    initial_vector: PositiveFloat = 0.02
    reads_own: bool = True

    def build(self, host: Host) -> Method:
        """Build two attentions and the gates of each attribute."""
        return _HcscMethod(self, host)


class _Attribute(nn.Module):
    """The parameters of one attribute: its two attentions, the composition of values, and the gate by frequency."""

    counts: Tensor

    def __init__(self, slots: Slots, *, H: int, A: int, Z: int) -> None:
        super().__init__()
        self.specific, self.shared = nn.Module(), nn.Module()
        for attention in (self.specific, self.shared):
            draw_attention(attention, H, A, Z)
        self.W_m = nn.Parameter(torch.randn(Z, H) * H**-0.5)
        self.b_m = nn.Parameter(torch.zeros(Z))
        self.scale, self.shape = (nn.Parameter(torch.ones(H)) for _ in range(2))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int64), persistent=False)
        self.use_counts(slots)

    def use_counts(self, slots: Slots) -> None:
        """Take over the training rows of each id, none of id 0, and their mean over the values that have any."""
        counts = (
            np.zeros(slots.size, dtype=np.int64) if slots.counts is None else np.array(slots.counts, dtype=np.int64)
        )
        counts[0] = 0
        self.counts = torch.from_numpy(counts).to(self.W_m.device)
        self.mean_count = max(float(counts[counts > 0].mean()) if counts.any() else 1.0, 1.0)

    def forward(
        self, hidden: States, mask: Mask, values: Values, table: Float[Tensor, "U Z"], *, reads_own: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the document vectors by a row's own values, by those of all values, and both together."""
        specific = attend(self.specific, hidden, mask, values.membership @ values.vectors)
        left_out = None
        if not reads_own:
            left_out = hidden.new_zeros(hidden.shape[0], len(table)).index_add(1, values.ids, values.membership)[:, 1:]
        mean = mean_tokens(hidden, mask)
        composed = functional.shared_vector(mean, self.W_m, self.b_m, table[1:], left_out=left_out)
        shared = attend(self.shared, hidden, mask, composed)
        count = values.membership.sum(dim=1)
        # Whole numbers become those of the membership here: a buffer of fractions would be rounded with the weights.
        frequencies = self.counts[values.ids].to(values.membership.dtype) / self.mean_count
        f = values.membership @ frequencies / count.clamp(min=1)
        g = functional.frequency_gate(f, self.scale, self.shape)
        return specific, shared, g * specific + (1 - g) * shared


class _HcscMethod(AttributeMethod):
    reads_whole_tables: ClassVar[bool] = True

    def __init__(self, config: Hcsc, host: Host) -> None:
        H, M = host.hidden, len(host.slots)
        Z = config.vector_size or H
        initial = partial(nn.init.normal_, std=config.initial_vector)
        super().__init__(config, host, sizes=[Z] * M, initial=initial)
        self.reads_own = config.reads_own
        self.attributes = nn.ModuleList(
            _Attribute(slots, H=H, A=config.attention_size or H, Z=Z) for slots in host.slots
        )
        rows = {1: 0, 2: H}.get(M, M * H)
        self.W_g = nn.Parameter(torch.randn(rows, M * H) * (M * H) ** -0.5)
        self.b_g = nn.Parameter(torch.zeros(rows))
        self.loss_weights = (1.0,) * (1 + 3 * M)

    def use_slots(self, slots: Sequence[Slots]) -> None:
        """Read the same attributes with other values."""
        super().use_slots(slots)
        for attribute, own in zip(self.attributes, self.slots, strict=True):
            cast(_Attribute, attribute).use_counts(own)

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        states = self.in_own_precision(hidden)
        tables = map(self.vectors_of_all, range(len(self.tables)))
        each = zip(self.attributes, condition.values, tables, strict=True)
        parts = [
            attribute(states, attention_mask, values, table, reads_own=self.reads_own)
            for attribute, values, table in each
        ]
        if self.training:
            condition.auxiliary_documents.extend(vector for part in parts for vector in part)
        return functional.attribute_gate(torch.stack([part[2] for part in parts], dim=1), self.W_g, self.b_g)
