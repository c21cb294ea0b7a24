"""How pretrained weights are got and loaded: from which cache, with which attention, in how many bits."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub import constants
from transformers import PreTrainedModel

from attribune.backbones.tuning import Tuning
from attribune.errors import ConfigError

__all__ = [
    "AS_STORED",
    "LoadOptions",
    "check_quantised_tuning",
    "hub_is_reachable",
    "is_quantised",
]

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

    def of_weights(self) -> dict[str, Any]:
        """Return the further arguments with which transformers loads weights."""
        given = {"attn_implementation": self.attn_implementation, "quantization_config": self.quantization_config}
        return {name: value for name, value in given.items() if value is not None}


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
