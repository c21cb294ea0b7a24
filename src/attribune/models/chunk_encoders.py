"""Document vectors from those of chunks: recurrence or attention over the chunks of a long text."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.recurrent import Recurrent, RecurrentOptions
from attribune.core.config import Settings, error_lines
from attribune.data.windows import Chunks, SentenceChunks, Window
from attribune.errors import ConfigError, DataError
from attribune.methods import Host, MethodConfig
from attribune.methods.ma_bert import build_layers
from attribune.methods.shapes import Mask

__all__ = [
    "ChunkEncoder",
    "ChunkEncoderConfig",
    "HibertConfig",
    "RobertConfig",
    "TobertConfig",
    "TransformerConfig",
    "check_chunk_encoder",
    "chunk_encoder_from_dict",
]

Size = Annotated[int, Field(ge=1, le=100_000)]


class ChunkEncoder(nn.Module):
    """Turns the vectors of a document's chunks (B, C, H) into one of ``features`` features."""

    features: int

    def forward(self, chunks: Float[Tensor, "B C H"], mask: Mask) -> Float[Tensor, "B features"]:
        """Return document vectors; the mask is 1 for chunks that have a real token."""
        raise NotImplementedError(type(self).__name__)


class RobertConfig(Settings):
    """Recurrence over chunks (Pappagari et al. 2019, RoBERT).

    Args:
        size: of the recurrent layer, whose last state goes on.
        dense: size of a layer with ReLU behind it.
    """

    what: ClassVar[str] = "backbone.chunk_encoder"

    name: Literal["robert"] = "robert"
    size: Size = 100
    dense: Size = 30

    def build(self, host: Host) -> ChunkEncoder:
        """Build the layers."""
        return _Robert(self, host)


class TransformerConfig(Settings):
    """Transformer layers over chunks, and the mean of their states.

    Args:
        layers: N, post-norm, of the backbone's width, heads and inner size.
        positions: number of learned positions of chunks; 0 for none.
        dropout: inside the layers.
    """

    what: ClassVar[str] = "backbone.chunk_encoder"

    name: str
    layers: Annotated[int, Field(ge=1, le=100)] = 2
    positions: Annotated[int, Field(ge=0, le=100_000)] = 0
    dropout: float = Field(default=0.1, ge=0, lt=1)

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


ChunkEncoderConfig = RobertConfig | TobertConfig | HibertConfig
_ADAPTER: TypeAdapter[ChunkEncoderConfig] = TypeAdapter(
    Annotated[ChunkEncoderConfig, Field(discriminator="name")], config=None
)


def chunk_encoder_from_dict(settings: Any) -> ChunkEncoderConfig:
    """Read the settings of a chunk encoder from ``{"name": ..., option: value}``, or its name alone.

    Raises:
        ConfigError: with every error at once.
    """
    tree = {"name": settings} if isinstance(settings, str) else settings
    try:
        return _ADAPTER.validate_python(tree)
    except ValidationError as error:
        raise ConfigError(f"chunk_encoder is {tree!r}: {'; '.join(error_lines(error))}") from None


def check_chunk_encoder(
    config: ChunkEncoderConfig, method: MethodConfig, *, chunk: int | None, window: Window | None
) -> None:
    """Refuse an encoder of chunks that are not there, are pooled otherwise, or are more than its positions.

    Args:
        chunk: ids that the backbone reads at once, if texts are read in chunks.
        window: of the texts, if it is known.

    Raises:
        ConfigError: naming the setting and the cure.
    """
    if chunk is None:
        raise ConfigError(
            "a chunk encoder joins chunks: give a window of them, such as chunks:202x8:150 or sentences:50x32"
        )
    if "pool" in method.points:
        raise ConfigError(
            f"method {method.name!r} pools the states of all chunks, and the chunk encoder their vectors: leave one of "
            "them out"
        )
    positions = config.positions if isinstance(config, TransformerConfig) else 0
    most = window.count if isinstance(window, Chunks | SentenceChunks) else 0
    if positions and most > positions:
        raise ConfigError(
            f"the window {str(window)!r} has up to {most} chunks, but the chunk encoder {positions} positions: give it "
            "more, or shorten the window"
        )


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
