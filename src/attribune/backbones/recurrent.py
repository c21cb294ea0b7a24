"""Recurrent layers with options, whose weights methods may change for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

import torch
from jaxtyping import Float, Shaped
from pydantic import Field, model_validator
from torch import Tensor, nn

from attribune import functional
from attribune.core.config import Settings
from attribune.errors import ConfigError
from attribune.functional.recurrent import LSTMWeights, Padding, RowLSTMWeights

_LSTM_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
Size = Annotated[int, Field(ge=1, le=100_000)]


class RecurrentOptions(Settings):
    """The options of recurrent layers.

    Args:
        hidden_size: H, of a state, of both directions together.
        bidirectional: whether a second direction reads from the end.
        padding: ``packed`` or ``run``; see `functional.lstm`.
        initial_range: r of the first weights, drawn from U(-r, r); by default that of PyTorch.
        forget_bias: what is added to the first bias of the forget gates.
    """

    hidden_size: Size = 200
    bidirectional: bool = True
    padding: Padding = "packed"
    initial_range: float | None = Field(default=None, gt=0, le=10)
    forget_bias: float = Field(default=0.0, ge=-100, le=100)

    @model_validator(mode="after")
    def _two_halves(self) -> Self:
        self._check_halves("hidden_size")
        return self

    def _check_halves(self, name: str) -> None:
        """Check that a size can be shared by two directions, if there are two."""
        if self.bidirectional and (size := getattr(self, name) or 0) % 2:
            raise ConfigError(f"{name} is {size}: give an even number, half of it for a direction")


class Recurrent(nn.Module):
    """A recurrent layer of one or two directions, whose states stand side by side; they are 0 at padding.

    Args:
        size: of a state; by default that of the options.
    """

    def __init__(self, inputs: int, options: RecurrentOptions, *, size: int | None = None) -> None:
        super().__init__()
        H = (size or options.hidden_size) // (2 if options.bidirectional else 1)
        self.lstm = nn.LSTM(inputs, H, batch_first=True, bidirectional=options.bidirectional)
        self.padding = options.padding
        with torch.no_grad():
            for name, parameter in self.lstm.named_parameters():
                if options.initial_range is not None:
                    nn.init.uniform_(parameter, -options.initial_range, options.initial_range)
                if "bias_ih" in name:
                    parameter[H : 2 * H] += options.forget_bias

    def directions(self) -> list[LSTMWeights]:
        """Return the weights of each direction."""
        ends = ("", "_reverse") if self.lstm.bidirectional else ("",)
        return [LSTMWeights(*(self.lstm.get_parameter(f"{name}_l0{end}") for name in _LSTM_NAMES)) for end in ends]

    def forward(
        self, x: Float[Tensor, "N T inputs"], attention_mask: Shaped[Tensor, "N T"]
    ) -> Float[Tensor, "N T states"]:
        """Return the states of each place."""
        if len(directions := self.directions()) == 1:
            return functional.lstm(x, attention_mask, directions[0], padding=self.padding)
        return functional.bilstm(x, attention_mask, *directions, padding=self.padding)

    def run_rows(
        self, x: Float[Tensor, "N T inputs"], attention_mask: Shaped[Tensor, "N T"], weights: Sequence[RowLSTMWeights]
    ) -> Float[Tensor, "N T states"]:
        """Return the states of each place by weights of each row, one set for each direction, in place of its own."""
        states = [
            functional.lstm_by_row(x, attention_mask, own, reverse=number == 1, padding=self.padding)
            for number, own in enumerate(weights)
        ]
        return torch.cat(states, dim=-1)
