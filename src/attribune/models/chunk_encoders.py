"""Document vectors from those of chunks, as packages make them: the door, and what is checked before it opens."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Float
from pydantic import ValidationError
from torch import Tensor, nn

from attribune.core.config import Settings, error_lines
from attribune.core.plugins import absent_plugins, load_plugins
from attribune.core.wording import did_you_mean_or
from attribune.data.windows import Chunks, SentenceChunks, Window
from attribune.errors import ConfigError
from attribune.methods import Host, MethodConfig
from attribune.methods.shapes import Mask


class ChunkEncoder(nn.Module):
    """Turns the vectors of a document's chunks (B, C, H) into one of ``features`` features."""

    features: int

    def forward(self, chunks: Float[Tensor, "B C H"], mask: Mask) -> Float[Tensor, "B features"]:
        """Return document vectors; the mask is 1 for chunks that have a real token."""
        raise NotImplementedError(type(self).__name__)


class ChunkEncoderConfig(Settings):
    """The settings of a chunk encoder, whose first is its `name`."""

    what: ClassVar[str] = "backbone.chunk_encoder"

    name: str

    @property
    def most_chunks(self) -> int | None:
        """The number of chunks of a text that it can read; None for any number."""
        return None

    def build(self, host: Host) -> ChunkEncoder:
        """Build the layers."""
        raise NotImplementedError(type(self).__name__)


def chunk_encoder_from_dict(settings: Any) -> ChunkEncoderConfig:
    """Read the settings of a chunk encoder from ``{"name": ..., option: value}``, or its name alone.

    Raises:
        ConfigError: with every error at once.
    """
    tree = {"name": settings} if isinstance(settings, str) else settings
    name = tree.get("name") if isinstance(tree, dict) else None
    if (missing := absent_plugins("chunk_encoders").get(str(name))) is not None:
        raise ConfigError(f"the chunk encoder {name!r} {missing}")
    if name not in CHUNK_ENCODERS:
        cure = did_you_mean_or(str(name), CHUNK_ENCODERS, f"choose one of {', '.join(CHUNK_ENCODERS)}")
        raise ConfigError(f"chunk_encoder is {tree!r}, which is none{cure}")
    try:
        return CHUNK_ENCODERS[name].model_validate(tree)
    except ValidationError as error:
        raise ConfigError(f"chunk_encoder is {tree!r}: {'; '.join(error_lines(error))}") from None


def check_chunk_encoder(
    config: ChunkEncoderConfig, method: MethodConfig, *, chunk: int | None, window: Window | None
) -> None:
    """Refuse an encoder of chunks that are not there, are pooled otherwise, or are more than its positions.

    Args:
        chunk: ids that the backbone reads at once, if texts are read in chunks.
        window: of the texts, if it is known.
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
    most = window.count if isinstance(window, Chunks | SentenceChunks) else 0
    if config.most_chunks is not None and most > config.most_chunks:
        raise ConfigError(
            f"the window {str(window)!r} has up to {most} chunks, but the chunk encoder {config.most_chunks} "
            "positions: give it more, or shorten the window"
        )


CHUNK_ENCODERS: dict[str, type[ChunkEncoderConfig]] = load_plugins("chunk_encoders", ChunkEncoderConfig)
"""The settings of chunk encoders by their names."""
