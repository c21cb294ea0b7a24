"""One copy of pretrained weights for several models, and the fingerprint of the weights that were loaded."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import nn
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from attribune.backbones.architecture import Architecture
from attribune.backbones.int8 import Int8Weights
from attribune.backbones.loading import (
    AS_STORED,
    AttentionDropout,
    LoadOptions,
    fingerprint,
    is_quantised,
    load_backbone,
    locate_backbone,
)
from attribune.errors import ConfigError

Module = TypeVar("Module", bound=nn.Module)


class SharedBackbones:
    """Backbones of several models that share one copy of the pretrained weights and of tokenizers, and do not train.

    Each model gets its own modules, so that methods do not interfere; their tensors are shared until a model replaces
    those that it has learned.

    Args:
        device: where the weights are.

    Attributes:
        tokenizers: those that were loaded, by the names and checksums of their files.
        int8: weights of models that are quantised, which they share as they share their originals.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.tokenizers: dict[Hashable, PreTrainedTokenizerBase | None] = {}
        self.int8: Int8Weights = {}
        self._loaded: dict[Hashable, tuple[PreTrainedModel, str]] = {}

    def load(
        self,
        name: str,
        *,
        revision: str | None,
        architecture: Architecture,
        dtype: torch.dtype,
        options: LoadOptions = AS_STORED,
    ) -> tuple[PreTrainedModel, str]:
        """Load a backbone as `load_backbone` does, cast it to `dtype`, and return the fingerprint from before.

        Raises:
            ConfigError: for a quantised one, whose tensors cannot be shared.
        """
        if options.quantization_config is not None:
            raise ConfigError("models that share a backbone cannot have it in 4 or 8 bits: load each separately")
        key = (locate_backbone(name), revision, architecture, dtype, options.attn_implementation)
        if key not in self._loaded:
            loaded, found = load_with_fingerprint(
                name, revision=revision, architecture=architecture, dtype=dtype, options=options
            )
            self._loaded[key] = loaded.to(self.device), found
        pretrained, original = self._loaded[key]
        return with_same_tensors(pretrained), original

    def shared_by(self, backbones: Mapping[str, PreTrainedModel]) -> Iterator[tuple[PreTrainedModel, list[str]]]:
        """Yield each backbone once more, with the names of those that have its embeddings."""
        for pretrained, _ in self._loaded.values():
            names = [
                name for name, backbone in backbones.items() if _embeddings_of(backbone) == _embeddings_of(pretrained)
            ]
            if names:
                yield with_same_tensors(pretrained), names


def _embeddings_of(backbone: PreTrainedModel) -> int:
    return cast(nn.Embedding, backbone.get_input_embeddings()).weight.data_ptr()


def with_same_tensors(module: Module, *, shared: Iterable[object] = ()) -> Module:
    """Copy the modules of a backbone or a model, but not its tensors.

    Args:
        shared: other objects that are not copied.
    """
    same: dict[int, Any] = {id(p): nn.Parameter(p.data, requires_grad=False) for p in module.parameters()}
    same |= {id(one): one for one in (*module.buffers(), *shared)}
    return copy.deepcopy(module, same)


def load_with_fingerprint(
    name: str,
    *,
    revision: str | None,
    architecture: Architecture,
    dtype: torch.dtype,
    options: LoadOptions,
    attention_dropout: AttentionDropout = None,
) -> tuple[PreTrainedModel, str]:
    """Load a backbone as `load_backbone` does and cast it to `dtype`; return the fingerprint of what is in its file.

    One that is quantised is not cast, and is loaded twice.
    """
    load = partial(
        load_backbone, name, revision=revision, architecture=architecture, attention_dropout=attention_dropout
    )
    if options.quantization_config is None:
        loaded = load(options=options)
        found = fingerprint(loaded)
        return (loaded if is_quantised(loaded) else loaded.to(dtype)), found
    found = fingerprint(load(options=replace(options, quantization_config=None)))
    return load(options=options), found
