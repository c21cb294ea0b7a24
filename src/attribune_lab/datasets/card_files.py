"""Cards as TOML files: what each says of a data set, what the sets of a file share, and which reader reads them.

A file has a table ``sets.NAME`` for each set, with the arguments of `Card`. What stands above these tables holds for
all of them, and a table ``shared.NAME`` for those of any file that name it in ``like``. The set has the last word, in
``files``, ``options`` and ``words`` key by key. Besides:

- an attribute is named, or a table as a recipe has it;
- ``files`` is a table for each role; each of its ``names`` may be in each of ``folders``;
- ``split`` has a ``kind``: given, hashed, shuffled or folds;
- ``reader`` is a function of `attribune_lab.datasets.readers`, or a class, whose fields are in ``options``;
- ``{word}`` in a text is one of ``words``, the set's ``{name}``, or the first name of a file, ``{file[ROLE]}``;
- without ``revision`` or ``licence``, the source states none; without ``recipe``, no preset has the paper's settings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from attribune.core.config import error_lines
from attribune.errors import ConfigError
from attribune_lab.datasets.card import NOT_STATED, Card, Folds, Given, Hashed, Read, Shuffled, SourceFile

T = TypeVar("T")
_READERS = "attribune_lab.datasets.readers"
_SPLITS = {"given": Given, "hashed": Hashed, "shuffled": Shuffled, "folds": Folds}
_DEPTHS = {"words": 1, "options": 1, "files": 2}  # to which tables are laid over one another key by key
_NOT_SAID = {"revision": NOT_STATED, "licence": NOT_STATED, "recipe": None}


def read_cards(folder: Path) -> dict[str, tuple[Card, ...]]:
    """Return the cards of a folder's TOML files, by the files' names without the ending.

    Raises:
        ConfigError: for a file that is not TOML, an unknown key, or a wrong value, naming file, set and key.
    """
    trees = {path: _parsed(path) for path in sorted(folder.glob("*.toml"))}
    shared = {name: part for tree in trees.values() for name, part in tree.pop("shared", {}).items()}
    cards = {}
    for path, tree in trees.items():
        sets = tree.pop("sets", {})
        cards[path.stem] = tuple(_card(name, [tree, said], shared, f"{path}, {name}") for name, said in sets.items())
    return cards


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _card(name: str, tables: list[dict[str, Any]], shared: Mapping[str, Any], place: str) -> Card:
    """Return a set's card from what its file and the set itself say."""
    try:
        said = _merged(one for table in tables for one in (*(shared[part] for part in table.get("like", ())), table))
        words = {"name": name, **said.pop("words", {})}
        files = _filled(said.pop("files"), words)
        folders = _filled(said.pop("folders", [""]), words)
        for file in files.values():
            file["names"] = [f"{start}{path}" for start in folders for path in file["names"]]
        said = _filled(said, words | {"file": {role: file["names"][0] for role, file in files.items()}})
        read = _reader(said.pop("reader"), said.pop("options", {}), place)
        split = dict(said.pop("split"))
        split = _built(_SPLITS[split.pop("kind")], split, f"{place}, split")
    except KeyError as error:
        raise ConfigError(f"{place}: there is no {error}, which the card needs or names: write it") from None
    said.pop("like", None)
    said["attributes"] = [
        {"kind": "categorical", "name": one} if isinstance(one, str) else one for one in said.get("attributes", ())
    ]
    sources = [_built(SourceFile, {"role": role, **file}, f"{place}, file {role}") for role, file in files.items()]
    return _built(Card, {**_NOT_SAID, "name": name, **said, "files": sources, "read": read, "split": split}, place)


def _merged(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Lay tables over one another: the last one that has a key counts, within words, options and files as well."""
    whole: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            whole[key] = _laid(whole.get(key, {}), value, depth=_DEPTHS.get(key, 0))
    return whole


def _laid(below: Any, above: Any, *, depth: int) -> Any:
    if not depth:
        return above
    return {**below, **{key: _laid(below.get(key, {}), value, depth=depth - 1) for key, value in above.items()}}


def _filled(value: Any, words: Mapping[str, Any]) -> Any:
    """Return a value with the words in its texts, which may hold words themselves."""
    if isinstance(value, str):
        return value.format_map(words).format_map(words)
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    return {key: _filled(one, words) for key, one in value.items()} if isinstance(value, dict) else value


def _reader(name: str, options: Mapping[str, Any], place: str) -> Read:
    module, _, short = name.rpartition(".")
    try:
        reader: Any = getattr(import_module(f"{_READERS}.{module}"), short)
    except (ImportError, AttributeError):
        raise ConfigError(f"{place}: there is no reader {name!r}: name a function or class of {_READERS}") from None
    if options and not isinstance(reader, type):
        raise ConfigError(f"{place}: the reader {name} has no options, but {', '.join(options)} are given: remove them")
    read: Read = _built(reader, options, f"{place}, options") if isinstance(reader, type) else reader
    return read


def _built(cls: Callable[..., T], values: Mapping[str, Any], place: str) -> T:
    """Make an instance of a dataclass of checked values."""
    known = [one.name for one in fields(cls)]  # type: ignore[arg-type]
    if unknown := [key for key in values if key not in known]:
        raise ConfigError(f"{place}: there is no key {unknown[0]!r}: choose of {', '.join(known)}")
    try:
        built: T = _adapter(cls).validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"{place}: {'; '.join(error_lines(error))}") from None
    return built


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)
