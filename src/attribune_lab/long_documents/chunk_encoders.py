"""Document vectors from those of chunks: recurrence or attention over the chunks of a long text."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.recurrent import Recurrent, RecurrentOptions
from attribune.errors import DataError
from attribune.methods import Host
from attribune.methods.ma_bert import build_layers
from attribune.methods.shapes import Mask
from attribune.models.chunk_encoders import ChunkEncoder, ChunkEncoderConfig

Size = Annotated[int, Field(ge=1, le=100_000)]


class RobertConfig(ChunkEncoderConfig):
    """Recurrence over chunks (Pappagari et al. 2019, RoBERT).

    Args:
        size: of the recurrent layer, whose last state goes on.
        dense: size of a layer with ReLU behind it.
    """

    name: Literal["robert"] = "robert"
    size: Size = 100
    dense: Size = 30

    def build(self, host: Host) -> ChunkEncoder:
        """Build the layers."""
        return _Robert(self, host)


class TransformerConfig(ChunkEncoderConfig):
    """Transformer layers over chunks, and the mean of their states.

    Args:
        layers: N, post-norm, of the backbone's width, heads and inner size.
        positions: number of learned positions of chunks; 0 for none.
        dropout: inside the layers.
    """

    name: str
    layers: Annotated[int, Field(ge=1, le=100)] = 2
    positions: Annotated[int, Field(ge=0, le=100_000)] = 0
    dropout: float = Field(default=0.1, ge=0, lt=1)

    @property
    def most_chunks(self) -> int | None:
        """The number of positions, if there are any."""
        return self.positions or None

    def build(self, host: Host) -> ChunkEncoder:
        """Build the layers."""
        return _Transformer(self, host)


class TobertConfig(TransformerConfig):
    """The layers over chunks of any kind (Pappagari et al. 2019, ToBERT)."""

    name: Literal["tobert"] = "tobert"


class HibertConfig(TransformerConfig):
    """The layers over sentences, with learned positions (Zhang et al. 2019, HiBERT, without its pretraining).

    The window is one of sentences, such as ``sentences:50x32``.
    """

    name: Literal["hibert"] = "hibert"
    positions: Annotated[int, Field(ge=1, le=100_000)] = 512


class _Robert(ChunkEncoder):
    def __init__(self, config: RobertConfig, host: Host) -> None:
        super().__init__()
        options = RecurrentOptions(hidden_size=config.size, bidirectional=False)
        self.recurrent = Recurrent(host.hidden, options)
        self.dense = nn.Linear(config.size, config.dense)
        self.features = config.dense

    def forward(self, chunks: Float[Tensor, "B C H"], mask: Mask) -> Float[Tensor, "B features"]:
        last: Tensor = self.dense(functional.last_token(self.recurrent(chunks, mask), mask))
        return last.relu()


class _Transformer(ChunkEncoder):
    def __init__(self, config: TransformerConfig, host: Host) -> None:
        super().__init__()
        self.layers = build_layers(
            config.name,
            host,
            count=config.layers,
            size=host.hidden,
            heads=None,
            inner=None,
            attributes=1,
            dropout=config.dropout,
        )
        self.positions = nn.Parameter(0.02 * torch.randn(config.positions, host.hidden)) if config.positions else None
        self.features = host.hidden

    def forward(self, chunks: Float[Tensor, "B C H"], mask: Mask) -> Float[Tensor, "B features"]:
        states = chunks
        if self.positions is not None:
            if states.shape[1] > len(self.positions):
                raise DataError(
                    f"a text has {states.shape[1]} chunks, but the chunk encoder has {len(self.positions)} positions: "
                    "encode with a shorter window"
                )
            states = states + self.positions[: states.shape[1]]
        for layer in self.layers:
            states = layer(states, mask)
        return functional.mean_tokens(states, mask)
