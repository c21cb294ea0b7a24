"""The words of the command line for settings and calls: the flags that the verb has, else those of another."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from attribune.apps.cli.parser import VerbParser
from attribune.core.door import Door, option_of
from attribune.core.flags import argument_of, as_flag
from attribune.data.file_options import FileOptions, Reading

_VERBS = {
    "read_judgements": "data judgements",
    "write_judgements": "data judgements",
    "compare_runs": "compare",
    "next_texts": "next",
}
"""The verbs of functions that have another name."""
_KINDS = {"categorical": "attributes"}
"""The flags of kinds of attributes that have another name."""


class CommandLine(Door):
    """The verb that was given.

    Args:
        parser: of all verbs.
        options: that it has read.
    """

    is_command_line = True

    def __init__(self, parser: VerbParser, options: argparse.Namespace) -> None:
        super().__init__()
        self._parser, self._verb = parser, parser.parser_of(options)

    def argument(self, path: str, value: Any = ..., *, at: str = "") -> str:
        """Return the flag of the verb, or of another; where it has none, ``--set`` or the command of a training."""
        words = _words(self._parser_of(at) if at else self._verb, path, value)
        return self.call("train", {path: value}) if words is None else shlex.join(words)

    def call(self, function: str, given: dict[str, Any]) -> str:
        """Return the command."""
        parser = self._parser_of(function)
        words = [word for path, value in given.items() for word in _words(parser, path, value) or [path]]
        return f"`{shlex.join([*parser.prog.split(), *words])}`"

    def attribute(self, kind: str, column: str, option: str = "") -> str:
        """Return the flag of this kind of attributes, with the column."""
        return self.attributes([{"kind": kind, "name": column, option_of(kind): option}])

    def attributes(self, specs: Sequence[Mapping[str, Any]]) -> str:
        """Return the flags of these attributes, one for each kind."""
        columns: dict[str, list[str]] = {}
        for one in specs:
            option = one.get(option_of(one["kind"]))
            columns.setdefault(one["kind"], []).append(f"{one['name']}:{option}" if option else one["name"])
        return " ".join(
            self.argument(f"data.{_KINDS.get(kind, kind)}", names, at="train") for kind, names in columns.items()
        )

    def _parser_of(self, function: str) -> VerbParser:
        """Return the parser of the verb that does what a function does."""
        return self._parser.parser_of_words(_VERBS.get(function, function).split())


def _words(parser: VerbParser, path: str, value: Any) -> list[str] | None:
    """Return the words that give a setting to a verb; None where it takes it by no flag."""
    name = argument_of(path)
    if (flag := parser.flag_of(name)) is not None:
        if value is ... or value is True:
            return [flag]
        if name in Reading.__annotations__:
            return [flag, *FileOptions(**{name: value}).words()[as_flag(name)]]
        return [flag, *map(str, value if isinstance(value, list | tuple) else [value])]
    if "." in path and parser.flag_of("set") is not None:
        return ["--set", f"{path}={_yaml(value)}"]
    return None


def _yaml(value: Any) -> str:
    if value is ...:
        return "..."
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
