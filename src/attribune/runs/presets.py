"""The papers' recipes, which are part of the package."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

from attribune.core.door import as_argument
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError

_PRESETS = resources.files("attribune.runs") / "presets"


def preset_names() -> list[str]:
    """Return the names of the papers' recipes."""
    return sorted(item.name.removesuffix(".yaml") for item in _PRESETS.iterdir() if item.name.endswith(".yaml"))


def read_preset(name: str) -> dict[str, Any]:
    """Return the settings of a paper's recipe; ConfigError for an unknown name, with the known ones."""
    if name not in preset_names():
        raise ConfigError(
            f"unknown recipe {name!r}"
            + did_you_mean_or(
                name,
                preset_names(),
                f"choose one of {', '.join(preset_names())}, or give a file with {as_argument('config')}",
            )
        )
    settings: dict[str, Any] = yaml.safe_load((_PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    return settings
