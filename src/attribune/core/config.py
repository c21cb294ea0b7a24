"""Settings, checked as a whole with every error at once: trees that are read from YAML, and dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import pydantic.dataclasses
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from attribune.core.deprecation import renamed_settings
from attribune.errors import ConfigError

__all__ = ["Settings", "checked_dataclass", "read_yaml"]

T = TypeVar("T")


class Settings(BaseModel):
    """A part of a tree of settings.

    ``what`` is its name in messages; ``renamed`` holds the settings whose names have changed, old to new.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    what: ClassVar[str] = "the recipe"
    renamed: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def from_dict(cls, settings: Any, *, source: str | None = None, saved: bool = False) -> Self:
        """Check and read a tree of settings.

        Args:
            source: where the settings are from, for messages.
            saved: whether this library wrote them, so that old names raise no warning.

        Raises:
            ConfigError: with every error at once.
        """
        try:
            return cls.model_validate(settings, context={"saved": saved})
        except ValidationError as error:
            lines = [_describe(item) for item in error.errors()]
            count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
            listed = "\n".join(f"  - {line}" for line in lines)
            raise ConfigError(f"{source or cls.what} has {count}:\n{listed}") from None

    @model_validator(mode="before")
    @classmethod
    def _new_names(cls, settings: Any, info: ValidationInfo) -> Any:
        if not cls.renamed or not isinstance(settings, Mapping):
            return settings
        return renamed_settings(settings, cls.renamed, warn=not (info.context or {}).get("saved"))


@dataclass_transform(frozen_default=True)
def checked_dataclass(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a frozen dataclass that checks its values by their types and by validators of pydantic.

    The constructor raises a ConfigError with every error at once; what a validator raises is taken word for word.
    """

    def decorate(cls: type[T]) -> type[T]:
        config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
        checked: Any = pydantic.dataclasses.dataclass(cls, frozen=True, kw_only=kw_only, config=config)
        check = checked.__init__

        @wraps(check)
        def init(self: Any, *args: Any, **values: Any) -> None:
            try:
                check(self, *args, **values)
            except ValidationError as error:
                lines = [str(item.get("ctx", {}).get("error") or _describe(item)) for item in error.errors()]
                raise ConfigError("; ".join(lines)) from None

        checked.__init__ = init
        return cast(type[T], checked)

    return decorate


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
    location = ".".join(str(part) for part in item["loc"])
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        message = "there is no such setting"
    elif item["type"] == "missing":
        message = "this setting is required"
    elif not item["type"].startswith("value_error"):
        message = f"{message}, it is {item['input']!r}"
    return f"{location}: {message}" if location else message
