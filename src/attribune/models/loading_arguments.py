"""The arguments with which transformers loads models: what they mean here, or why they are refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attribune.backbones.added_tokens import is_added
from attribune.core.config import short_repr
from attribune.core.device import named_device
from attribune.errors import ConfigError
from attribune.models.config import AttributeConfig

__all__ = ["check_foreign", "device_of", "dtype_of", "with_outputs"]

_PASSED_BY_TRANSFORMERS = ("_commit_hash", "_from_auto", "_from_pipeline", "adapter_kwargs", "code_revision")
_SPREAD = "the layers of a model are not spread over several devices: leave it out"
_REFUSED = {
    "trust_remote_code": "no code is ever run from the folder of a model: leave it out",
    "torch_dtype": "its name is dtype now",
    "force_download": "delete the files that are stored, or give revision",
    "proxies": "set the environment variable HTTPS_PROXY",
    "subfolder": "give the folder itself, or upload it as a repository of its own",
    "max_memory": _SPREAD,
    "offload_folder": _SPREAD,
    "state_dict": "build the model and give them to load_state_dict",
    "ignore_mismatched_sizes": "all tensors must fit: leave it out",
    "load_in_4bit": "give quantization_config=BitsAndBytesConfig(load_in_4bit=True)",
    "load_in_8bit": "give quantization_config=BitsAndBytesConfig(load_in_8bit=True)",
}
_OUTPUTS = ("output_hidden_states", "output_attentions", "return_dict")
_KNOWN = (
    "attn_implementation",
    "backbone",
    "cache_dir",
    "config",
    "device_map",
    "dtype",
    "local_files_only",
    "quantization_config",
    "revision",
    "token",
    "verify",
)


def with_outputs(config: AttributeConfig, given: Mapping[str, Any]) -> AttributeConfig:
    """Return a configuration with what a model returns besides its logits, where that is given."""
    for name in _OUTPUTS:
        if name in given:
            setattr(config, name, bool(given[name]))
    return config


def check_foreign(given: Mapping[str, Any]) -> None:
    """Refuse further arguments of `from_pretrained`, each with its reason; what transformers adds by itself passes.

    Raises:
        ConfigError: naming the argument and the cure.
    """
    for name, value in given.items():
        if name in (*_PASSED_BY_TRANSFORMERS, *_OUTPUTS) or (name in _REFUSED and not value):
            continue
        if name in _REFUSED:
            raise ConfigError(f"{name} is {short_repr(value)}: {_REFUSED[name]}")
        close = difflib.get_close_matches(name, (*_KNOWN, *_OUTPUTS), n=1)
        hint = f"; did you mean {close[0]}?" if close else f": it takes {', '.join((*_KNOWN, *_OUTPUTS))}"
        raise ConfigError(f"from_pretrained has no argument {name!r:.80}{hint}")


def dtype_of(dtype: torch.dtype | str, tensors: Mapping[str, Tensor]) -> torch.dtype:
    """Return a type of numbers by its name; ``auto`` is that in which weights of the backbone are stored, if any are.

    Args:
        tensors: those stored.
    """
    if dtype == "auto":
        own = (x.dtype for name, x in tensors.items() if name.startswith("backbone.") and not is_added(name))
        return next(own, torch.float32)
    result = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(result, torch.dtype) or not result.is_floating_point:
        raise ConfigError(f"dtype is {dtype!r}: choose float32, bfloat16, float16 or auto")
    return result


def device_of(device_map: torch.device | str | int | Mapping[str, Any] | None) -> torch.device:
    """Return the device of a whole model; ``auto`` is a GPU if there is one."""
    if isinstance(device_map, str) and device_map == "auto":
        return named_device(None)
    name = device_map[""] if isinstance(device_map, Mapping) and list(device_map) == [""] else device_map
    try:
        return torch.device("cpu" if name is None else name)  # type: ignore[arg-type]
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device_map is {device_map!r}: give auto or one device, such as 'cpu' or 'cuda:0'; the layers of a model "
            "are not spread over several"
        ) from error
