"""Checks before a model is built, or reads a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from torch import Tensor, nn
from transformers import PreTrainedModel

from attribune import functional
from attribune.backbones.families import placement_for
from attribune.backbones.loading import pooling_of
from attribune.backbones.placement import Pooling
from attribune.backbones.word_models import WordModel
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError

if TYPE_CHECKING:
    from attribune.models.base import ConditionedModel

__all__ = ["check_asked", "check_embeddings", "check_head", "check_length", "checked_chunk", "claim", "own_pooling", "pooling_named"]


def claim(backbone: PreTrainedModel, *, acting: bool) -> None:
    """Mark a backbone in which a method acts: another model on it would run that method's hooks.

    Raises:
        ConfigError: for one that is marked.
    """
    if getattr(backbone, "_attribune_taken", False):
        raise ConfigError(
            "this backbone belongs to another AttributeModel, whose method acts inside it: load the weights again, or "
            "pass copy.deepcopy of a backbone that no model has had"
        )
    backbone._attribune_taken = acting


def own_pooling(backbone: PreTrainedModel, name: str, revision: str | None) -> Pooling:
    """Return the pooling with which a backbone was trained; that of its family for one without a name."""
    placement = placement_for(backbone.config.model_type)
    is_stored = bool(name) and not isinstance(backbone, WordModel)
    return pooling_of(name, placement, revision=revision) if is_stored else placement.pooling


_POOLINGS: dict[Pooling, Callable[[Tensor, Tensor], Tensor]] = {
    "first": functional.first_token,
    "mean": functional.mean_tokens,
    "last": functional.last_token,
    "max": functional.max_tokens,
}


def pooling_named(name: str | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of a pooling; ConfigError for an unknown name."""
    if name not in _POOLINGS:
        raise ConfigError(f"unknown pooling {name!r}: choose one of {', '.join(_POOLINGS)}")
    return _POOLINGS[name]


def check_asked(model: ConditionedModel, asked: Sequence[str]) -> None:
    """Refuse to return states or attentions that the backbone does not have.

    Args:
        asked: such as ``output_hidden_states``.
    """
    if not asked:
        return
    if isinstance(model.backbone, WordModel) or model.config.chunk is not None:
        what = "reads texts in chunks" if model.config.chunk is not None else "is not pretrained"
        raise ConfigError(f"{asked[0]} is True, and the backbone {what}, which has no states for each text: leave it out")
    if "output_attentions" in asked and (used := model.stack.config._attn_implementation) != "eager":
        raise ConfigError(
            f"output_attentions is True, and the attention is {used}, which does not keep its weights: load the model "
            "with attn_implementation='eager'"
        )


def check_embeddings(model: ConditionedModel, embeddings: Tensor) -> None:
    """Refuse embeddings in place of ids where the ids are needed, or of another shape than (B, T, E)."""
    reason = None
    if "embed" in model.method_config.points:
        reason = f"the method {model.method_config.name!r} puts its own among those of the ids"
    elif isinstance(model.backbone, WordModel):
        reason = "backbones without pretraining read ids"
    elif model.config.chunk is not None or model.method.pads_right:
        reason = "texts are cut into chunks by their ids"
    elif model.task.candidates > 1:
        reason = f"the task {model.task.kind!r} compares texts"
    if reason is not None:
        raise ConfigError(f"inputs_embeds cannot be read: {reason}; give input_ids")
    width = cast(nn.Embedding, model.get_input_embeddings()).embedding_dim
    if embeddings.dim() != 3 or embeddings.shape[2] != width:
        raise DataError(
            f"inputs_embeds have the shape {tuple(embeddings.shape)}: give (rows, tokens, {width}), the size of the "
            "backbone's embeddings"
        )


def check_head(dropout: float, head_size: int | None) -> None:
    """Refuse a dropout or a size that is out of range."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout is {dropout}: it must be at least 0 and below 1")
    if head_size is not None and head_size < 1:
        raise ConfigError(f"head_size is {head_size}: it must be at least 1, or None for a linear head")


def checked_chunk(chunk: int | None, text_input: TextInput | None) -> int | None:
    """Return the size of chunks, by default that of the window, if it cuts any; ConfigError for one below 1."""
    if chunk is None and text_input is not None and text_input.window is not None:
        chunk = text_input.window.chunk
    if chunk is not None and chunk < 1:
        raise ConfigError(f"chunk is {chunk}: it must be at least 1, or None to read a text at once")
    return chunk


def check_length(length: int, chunk: int | None, *, most: int | None, own: int) -> None:
    """Refuse texts, or chunks of texts, that are longer than the backbone takes.

    Args:
        most: positions of the backbone, if they are limited.
        own: positions that the method takes of them.

    Raises:
        DataError: naming both numbers and the cure.
    """
    if most is None or min(length, chunk or length) <= (limit := most - own):
        return
    if chunk is None:
        raise DataError(
            f"a text of {length} ids is longer than the {limit} that the backbone takes: encode with a shorter "
            "window, or build the model with chunk= or a text_input whose window is chunks"
        )
    raise DataError(f"chunks of {chunk} ids are longer than the {limit} that the backbone takes")
