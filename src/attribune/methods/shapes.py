"""Shapes of the tensors that methods share: B rows, T tokens, H hidden size, D features of a document, L labels."""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Float, Int, Shaped
from torch import Tensor

AttributeIds: TypeAlias = Int[Tensor, "B slots"]
DropoutDraw: TypeAlias = Float[Tensor, "B attributes"]
InputIds: TypeAlias = Int[Tensor, "B T"]
Mask: TypeAlias = Shaped[Tensor, "B T"]
States: TypeAlias = Float[Tensor, "B T H"]
Documents: TypeAlias = Float[Tensor, "B D"]
Logits: TypeAlias = Float[Tensor, "B L"]
