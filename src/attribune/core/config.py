"""Settings and records, checked as a whole with every error at once: trees of YAML, dataclasses, and JSON files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform, get_args

import pydantic.dataclasses
import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from attribune.core.files import read_json
from attribune.core.flags import FLAGS
from attribune.core.wording import closest, shortened
from attribune.errors import ConfigError, ModelFolderError

T = TypeVar("T")
_MOST_BYTES = 1 << 20  # of a file of settings
_MOST_NODES, _DEEPEST = 100_000, 50  # of a tree of settings
_SHOWN = 3  # errors of a record
_LARGEST = 2**64  # beyond which no setting is a number


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


ONE_OR_SEVERAL = BeforeValidator(_as_tuple)
"""Lets a setting of several texts be given as one."""

PATH_AS_TEXT = BeforeValidator(lambda given: os.fspath(given) if isinstance(given, os.PathLike) else given)
"""Lets the setting that names a file or a folder be a `Path`."""


def setting(path: str, more: str = "", **options: Any) -> Any:
    """Return the field of a setting that has a flag: its default and its meaning are those of `FLAGS`.

    Args:
        path: of the setting in a recipe.
        more: what the documentation says besides.
        **options: of the field, such as limits; a default only where `FLAGS` has none.
    """
    flag = FLAGS[path]
    if flag.default is not ... and "default" in options:
        raise ValueError(f"{path} has two defaults, {flag.default!r} and {options['default']!r}: leave the second out")
    default = options.pop("default", flag.default)
    return described(default, f"{flag.meaning}; {more}" if more else flag.meaning, **options)


def described(default: Any, meaning: str, **options: Any) -> Any:
    """Return a field with its meaning, which the documentation shows; a default of ``...`` is none."""
    return Field(default=default, description=meaning, **options)


class Settings(BaseModel):
    """A part of a tree of settings.

    ``what`` is its name in messages; ``renamed`` has the new name by the old one, which saved folders may have;
    ``removed`` has those that are gone, with the cure, and ``before`` what saved settings mean that lack one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    what: ClassVar[str] = "the recipe"
    renamed: ClassVar[Mapping[str, str]] = {}
    removed: ClassVar[Mapping[str, str]] = {}
    before: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def from_dict(cls, settings: Any, *, source: str | None = None, saved: bool = False) -> Self:
        """Check and read a tree of settings.

        Args:
            source: where the settings are from, for messages.
            saved: whether this library wrote them, perhaps an earlier version with old names.

        Raises:
            ConfigError: with every error at once.
        """
        try:
            return cls.model_validate(settings, context={"saved": saved})
        except ValidationError as error:
            lines = [_describe(item, cls) for item in _of_settings(error, cls)]
            count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
            listed = "\n".join(f"  - {line}" for line in lines)
            raise ConfigError(f"{source or cls.what} has {count}:\n{listed}") from None

    @model_validator(mode="before")
    @classmethod
    def _new_names(cls, settings: Any, info: ValidationInfo) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        is_saved = (info.context or {}).get("saved")
        for name in cls.removed.keys() & settings.keys():
            if settings[name] and not is_saved:
                raise ConfigError(f"{name} is gone: {cls.removed[name]}")
        known = {name: value for name, value in settings.items() if name not in cls.removed}
        new_names = {old: new for old, new in cls.renamed.items() if new not in known} if is_saved else {}
        named = {new_names.get(name, name): value for name, value in known.items()}
        return {**cls.before, **named} if is_saved else named


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
        ConfigError: for a missing file, or one that is not YAML, or not settings by its size.
    """
    try:
        size = Path(path).stat().st_size
        if size > _MOST_BYTES:
            raise ConfigError(
                f"{what} {path} has {size:,} bytes, but settings have at most {_MOST_BYTES:,}: check the path"
            )
        settings = parse_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{what} {path} is not a tree of settings: see the recipe.yaml of any run")
    return settings


def parse_yaml(text: str) -> Any:
    """Parse YAML; aliases are counted as often as they are used.

    Raises:
        yaml.YAMLError: for text that is not YAML, or a tree too deep or too large to be settings.
    """
    try:
        tree = yaml.safe_load(text)
    except (ValueError, RecursionError) as error:  # dates that do not exist, numbers of thousands of digits
        reason = "its lists and groups are too deep" if isinstance(error, RecursionError) else str(error)
        raise yaml.YAMLError(f"{reason}: correct the value, or put it in quotes") from error
    waiting, seen = [(tree, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST_NODES:
            raise yaml.YAMLError(
                f"its tree has more than {_DEEPEST} levels or {_MOST_NODES:,} values, aliases counted as often as they "
                "are used: write out what is meant"
            )
        if isinstance(node, int) and abs(node) > _LARGEST:
            raise yaml.YAMLError(f"{short_repr(node)} is too large a number for any setting: give a smaller one")
        branches = [*node, *node.values()] if isinstance(node, dict) else node
        if isinstance(branches, list | tuple | set):
            waiting.extend((branch, depth + 1) for branch in branches)
    return tree


def short_repr(value: Any) -> str:
    """Return a value as Python writes it, at most a line of it."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"a number of {value.bit_length():,} bits"
    return shortened(repr(value), 200)


def error_lines(error: ValidationError) -> list[str]:
    """Return what is wrong in which places, each with the value seen."""
    return [_describe(item) for item in error.errors()]


def _of_settings(error: ValidationError, settings: type[Settings]) -> list[Any]:
    """Return the errors, of a setting that may have values of several kinds one that names all of them."""
    paths = list(_paths(settings))
    single = {*paths} - {path.rpartition(".")[0] for path in paths}  # and no groups
    found: dict[tuple[Any, ...], Any] = {}
    for item in error.errors():
        place = item["loc"][:-1]
        if ".".join(map(str, place)) not in single or not isinstance(item["loc"][-1], str):  # it is no kind of value
            found[item["loc"]] = item
        elif place not in found:
            found[place] = item | {"loc": place}
        else:
            found[place]["msg"] += f", or {item['msg'].removeprefix('Input should be ')}"
    return list(found.values())


def _describe(item: Any, settings: type[Settings] | None = None) -> str:
    """Say what is wrong in which place.

    Args:
        settings: the tree in which a setting that does not exist is looked for under similar names.
    """
    location = ".".join(str(part) for part in item["loc"])
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        message = f"there is no such setting{'' if settings is None else _similar_setting(location, settings)}"
    elif item["type"] == "missing":
        message = "this setting is required"
    elif item["type"] in ("tuple_type", "list_type"):
        example = f", such as [{item['input']!r}]" if isinstance(item["input"], str | int | float) else ""
        message = f"give a list{example}; it is {short_repr(item['input'])}"
    elif not item["type"].startswith("value_error"):
        message = f"{message}, it is {short_repr(item['input'])}"
    return f"{location}: {message}" if location else message


def _similar_setting(path: str, settings: type[Settings]) -> str:
    """Suggest the setting that a path may have meant: one with a similar name beside it, or of the same elsewhere."""
    known, (group, _, name) = list(_paths(settings)), path.rpartition(".")
    beside = {other.rpartition(".")[2]: other for other in known if other.rpartition(".")[0] == group}
    elsewhere = [other for other in known if other.endswith(f".{name}")]
    close = closest(name, beside)
    meant = elsewhere if close is None else [beside[close]]
    return f"; did you mean {meant[0]!r}?" if meant else ""


def _paths(settings: type[Settings], start: str = "") -> Iterator[str]:
    """List the paths of all settings of a tree, such as ``training.epochs``."""
    for name, field in settings.model_fields.items():
        yield f"{start}{name}"
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, Settings):
                yield from _paths(kind, f"{start}{name}.")


def read_record(path: str | Path, kind: type[T], *, what: str) -> T:
    """Read a JSON file that holds a `kind`: any type that pydantic knows.

    Raises:
        ModelFolderError: naming a file that is missing, truncated or not JSON, or the places that are of another type.
    """
    return checked_record(read_json(path, what=what), kind, source=path, what=what)


def checked_record(
    record: Any,
    kind: type[T],
    *,
    source: str | Path,
    what: str,
    cure: str = "restore the file, or copy the folder again",
    strict: bool = False,
) -> T:
    """Return what was read as a `kind`.

    Args:
        source: the file, for messages.
        cure: what to do about another record, for messages.
        strict: refuse values that pydantic would convert, such as texts of numbers.

    Raises:
        ModelFolderError: naming the places that are of another type.
    """
    try:
        return TypeAdapter(kind).validate_python(record, strict=strict)
    except ValidationError as error:
        lines = error_lines(error)
        more = f" and {len(lines) - _SHOWN:,} more" if len(lines) > _SHOWN else ""
        raise ModelFolderError(
            f"{source}: the {what} is damaged ({'; '.join(lines[:_SHOWN])}{more}): {cure}"
        ) from error
