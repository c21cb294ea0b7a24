"""The recipes of the papers, which come with the library."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

from attribune.errors import ConfigError

__all__ = ["preset_names", "read_preset"]


_PRESETS = resources.files("attribune.runs") / "presets"


def preset_names() -> list[str]:
    """The recipes of the papers that come with the library."""
    return sorted(item.name.removesuffix(".yaml") for item in _PRESETS.iterdir() if item.name.endswith(".yaml"))


def read_preset(name: str) -> dict[str, Any]:
    """The tree of settings of a paper's recipe, over which a user's own are laid.

    Raises:
        ConfigError: for an unknown name; the message lists those there are.
    """
    if name not in preset_names():
        raise ConfigError(
            f"unknown recipe {name!r}: choose one of {', '.join(preset_names())}, or give a file by --config"
        )
    settings: dict[str, Any] = yaml.safe_load((_PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    return settings
