"""The training that the check of a table proposes: as arguments of `train`, as a call of it, and as a command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribune.core.arguments import as_list
from attribune.core.flags import as_flag
from attribune.data.file_options import FileOptions, file_word
from attribune.schema.kinds import Kind, as_kinds

_FLAGS = ("prompt", "text", "text_pair", "text_negative", "label")
LACKING = "COLUMN"
"""In place of the name of a column that was not found."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A training on a table.

    Attributes:
        source: name of the table: a path, or anything else that is a file to `read_table`; of a table in memory, the
            name of a variable.
        is_file: whether it is such a name.
        arguments: of `train`, beside the table and the folder; a text or a label that was not found is ``COLUMN``.
        reading: how the file is read.
        missing: the texts that mean no value; None for the usual ones.
    """

    source: str
    is_file: bool
    arguments: Mapping[str, Any]
    reading: FileOptions
    missing: tuple[str, ...] | None = None

    @property
    def folder(self) -> str:
        """A folder for the run."""
        stem = Path(self.source).name.partition(".")[0] if self.is_file else ""
        name = re.sub(r"\W+", "-", stem).strip("-")
        return f"runs/{name or 'table'}"

    @property
    def flags(self) -> list[str]:
        """The words after ``attribune train FILE``."""
        given = self.arguments
        kinds = as_kinds(given.get("attributes", ()))
        lists = [one for one in kinds if one.takes_several]
        numbers = [one for one in kinds if one.is_numeric]
        listed: list[tuple[str, Sequence[str]]] = [(as_flag(name), as_list(given.get(name))) for name in _FLAGS]
        listed += [
            ("--attributes", [one.name for one in kinds if one not in (*lists, *numbers)]),
            ("--multi-label", [":".join(filter(None, (one.name, one.separator))) for one in lists]),
            ("--number", [one.name for one in numbers]),
            ("--weight", as_list(given.get("weight"))),
            *self.reading.words().items(),
            ("--method", as_list(given.get("method"))),
        ]
        task = given.get("task")
        options = dict(task) if isinstance(task, Mapping) else {"kind": task}
        settings = {f"task.{name}": value for name, value in options.items() if name != "kind"} | self._missing
        listed += [
            ("--task", as_list(None if options["kind"] == "classification" else options["kind"])),
            ("--set", [f"{path}={json.dumps(value, ensure_ascii=False)}" for path, value in settings.items()]),
        ]
        return [word for flag, names in listed for word in _flag(flag, names)]

    @property
    def _missing(self) -> dict[str, Any]:
        return {} if self.missing is None else {"data.missing": list(self.missing)}

    @property
    def command(self) -> str:
        """The command to paste."""
        return shlex.join(["attribune", "train", file_word(self.source), *self.flags, "--output", self.folder])

    @property
    def call(self) -> str:
        """The lines of Python to paste."""
        given = {**self.arguments, **self.reading.given()}
        if self._missing:
            given["settings"] = self._missing
        kinds = {type(one).__name__ for one in given.get("attributes", ()) if not isinstance(one, str)}
        source = repr(self.source) if self.is_file else self.source
        words = [source, repr(self.folder), *(f"{name}={_code(value)}" for name, value in given.items())]
        return f"from attribune import {', '.join([*sorted(kinds), 'train'])}\ntrain({', '.join(words)})"


def _code(value: Any) -> str:
    """Return an argument as it is written in Python."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_code, value))}]"
    if not isinstance(value, Kind):
        return repr(value)
    separator = f", separator={value.separator!r}" if value.separator else ""
    return f"{type(value).__name__}({value.name!r}{separator})"


def _flag(flag: str, names: Sequence[str]) -> list[str]:
    """Return a flag with its values; if one begins like a flag, each is joined to a flag of its own."""
    if any(name.startswith("-") for name in names):
        return [f"{flag}={name}" for name in names]
    return [flag, *names] if names else []
