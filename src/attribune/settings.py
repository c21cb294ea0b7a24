"""Trees of settings: checked as a whole, with every error at once, and read from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from attribune.errors import ConfigError

__all__ = ["Settings", "read_yaml"]


class Settings(BaseModel):
    """A part of a tree of settings; ``what`` is its name in messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    what: ClassVar[str] = "the recipe"

    @classmethod
    def from_dict(cls, settings: Any, *, source: str | None = None) -> Self:
        """Check and read a tree of settings.

        Raises:
            ConfigError: with every error at once.
        """
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            lines = [_describe(item) for item in error.errors()]
            count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
            listed = "\n".join(f"  - {line}" for line in lines)
            raise ConfigError(f"{source or cls.what} has {count}:\n{listed}") from None


def read_yaml(path: str | Path, *, what: str = "the recipe") -> dict[str, Any]:
    """The tree of settings in a YAML file, not yet checked, so that flags can be laid over it.

    Raises:
        ConfigError: for a missing file, or one that is not YAML.
    """
    try:
        settings = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{what} {path} is not a tree of settings: see the recipe.yaml of any run")
    return settings


def _describe(item: Any) -> str:
    place = ".".join(str(part) for part in item["loc"])
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        message = "there is no such setting"
    elif item["type"] == "missing":
        message = "this setting is required"
    elif not item["type"].startswith("value_error"):
        message = f"{message}, it is {item['input']!r}"
    return f"{place}: {message}" if place else message
