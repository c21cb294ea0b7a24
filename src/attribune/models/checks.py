"""Checks before a model is built, or reads a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor
from transformers import PreTrainedModel

from attribune import functional
from attribune.backbones.families import placement_for
from attribune.backbones.loading import pooling_of
from attribune.backbones.placement import Placement, Pooling
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.methods import MethodConfig, check_gives_vectors
from attribune.tasks import Task


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


def own_pooling(backbone: PreTrainedModel, name: str, revision: str | None, *, task: Task) -> Pooling:
    """Return the pooling with which a backbone was trained; else that of its family, or the mean to compare vectors."""
    placement = placement_for(backbone.config.model_type)
    placement = placement if task.head.outputs else replace(placement, pooling="mean")
    is_stored = bool(name) and placement.is_pretrained
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


def check_head(dropout: float, head_size: int | None) -> None:
    """Refuse a dropout or a size that is out of range."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout is {dropout}: it must be at least 0 and below 1")
    if head_size is not None and head_size < 1:
        raise ConfigError(f"head_size is {head_size}: it must be at least 1, or None for a linear head")


def check_task(
    task: Task, method: MethodConfig, placement: Placement, *, chunk: int | None, head_size: int | None
) -> None:
    """Refuse a task for which the method, the backbone or the model's settings do not give what it scores."""
    needs = f"the task {task.kind!r} {task.input.needs_token_states}" if task.input.needs_token_states else ""
    if chunk is not None:
        needs = needs or "chunks are cut by words"
    if needs and placement.states != "token":
        raise ConfigError(
            f"{needs}, and backbones of type {placement.model_types[0]} have a state for each {placement.states}: "
            "choose another backbone, such as bilstm"
        )
    if chunk is not None and not method.reads_chunks:
        raise ConfigError(
            f"method {method.name!r} reads a text at once, behind its history: choose the window head or head+tail"
        )
    task.input.check_method(method, task=task.kind)
    if not task.head.outputs:
        check_gives_vectors(method, task=task.kind)
        if head_size is not None:
            raise ConfigError(f"head_size is {head_size}: the task {task.kind!r} has no head; leave it out")
    if chunk is not None and task.input.scores == "tokens":
        raise ConfigError(f"chunk is {chunk}: the task {task.kind!r} has windows; leave it out")


def checked_chunk(chunk: int | None, text_input: TextInput | None) -> int | None:
    """Return the size of chunks, by default that of the window, if it cuts any; ConfigError for one below 1."""
    if chunk is None and text_input is not None and text_input.window is not None:
        chunk = text_input.window.chunk
    if chunk is not None and chunk < 1:
        raise ConfigError(f"chunk is {chunk}: it must be at least 1, or None to read a text at once")
    return chunk


def check_length(length: int, chunk: int | None, *, most: int | None, own: int) -> None:
    """Refuse texts, or chunks of texts, that are longer than the backbone takes, by a DataError.

    Args:
        most: positions of the backbone, if they are limited.
        own: positions that the method takes of them.
    """
    if most is None or min(length, chunk or length) <= (limit := most - own):
        return
    if chunk is None:
        raise DataError(
            f"a text of {length} ids is longer than the {limit} that the backbone takes: encode with a shorter "
            "window, or build the model with chunk= or a text_input whose window is chunks"
        )
    raise DataError(f"chunks of {chunk} ids are longer than the {limit} that the backbone takes")
