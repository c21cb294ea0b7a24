"""Words for settings and calls where the user stands: arguments of a function in Python, flags at the command line.

A message names a setting of a recipe by its path, such as ``data.encoding``, or an argument by its name, such as
``resume``; the door turns it into what the user can write there. The door is the command that runs, else the public
function that was called first (`checked_arguments` opens it), else none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attribune.core.flags import argument_of


def option_of(kind: str) -> str:
    """Return what stands behind the column in the flag of a kind, as in ``--date COL:FORMAT``.

    The kind itself is not asked, since messages and parsers name attributes without loading their kinds.
    """
    return "date_format" if kind == "date" else "separator"


class Door:
    """A public function of the package that was called.

    Args:
        arguments: their names; None where it is not known which function was called.
    """

    is_command_line = False

    def __init__(self, arguments: Collection[str] | None = None) -> None:
        self._arguments = arguments

    def argument(self, path: str, value: Any = ..., *, at: str = "") -> str:
        """Return what gives a setting, or an argument without a path, here; with a value unless that is ``...``.

        Where nothing does so here, it is a call of the training, which takes every setting.

        Args:
            at: the function whose argument it is, where the user sees a call of it.
        """
        name = argument_of(path)
        if at or self._arguments is None or name in self._arguments or "." not in path:
            return f"{name}={'' if value is ... else repr(value)}"
        if "settings" in self._arguments:
            return _in_settings(path, value)
        return f"`train(..., {_in_settings(path, value)})`"

    def call(self, function: str, given: dict[str, Any]) -> str:
        """Return a call with arguments and settings, which have a point in their name; a value may be ``...``."""
        words = [f"{name}={_shown(value)}" for name, value in given.items() if "." not in name]
        settings = [f"{name!r}: {_shown(value)}" for name, value in given.items() if "." in name]
        words += [f"settings={{{', '.join(settings)}}}"] if settings else []
        return f"`{function}({', '.join(['...', *words])})`"

    def attribute(self, kind: str, column: str, option: str = "") -> str:
        """Return what makes an attribute of this kind, such as ``multi_label``, of a column in a training.

        Args:
            option: the separator of several values, or the format of dates.
        """
        more = f", {option_of(kind)}={option!r}" if option else ""
        return f"{kind.title().replace('_', '')}({column!r}{more})"

    def attributes(self, specs: Sequence[Mapping[str, Any]]) -> str:
        """Return what gives a training these attributes, each with ``kind`` and ``name`` as a recipe has them."""
        words = [
            repr(one["name"])
            if one["kind"] == "categorical"
            else self.attribute(one["kind"], one["name"], one.get(option_of(one["kind"])) or "")
            for one in specs
        ]
        return f"attributes=[{', '.join(words)}]"


def _in_settings(path: str, value: Any) -> str:
    return f"settings={{{path!r}: {_shown(value)}}}"


def _shown(value: Any) -> str:
    return "..." if value is ... else repr(value)


_command: list[Door] = []  # of the process, since a command works in threads, too
_function: ContextVar[Door | None] = ContextVar("door", default=None)


_is_file: ContextVar[bool] = ContextVar("is_file", default=False)


def _door() -> Door:
    if _is_file.get():
        return Door()
    return _command[-1] if _command else _function.get() or Door()


@contextmanager
def written_to_file() -> Iterator[None]:
    """Let words be calls in Python within the block, whatever the door: a file is read wherever its reader stands."""
    token = _is_file.set(True)
    try:
        yield
    finally:
        _is_file.reset(token)


@contextmanager
def opened_command_line(door: Door) -> Iterator[None]:
    """Let all messages of the process speak of the flags of a command, within the block."""
    _command.append(door)
    try:
        yield
    finally:
        _command.remove(door)


@contextmanager
def called(arguments: Collection[str]) -> Iterator[None]:
    """Let messages speak of the arguments of a function, unless another public function has called it."""
    if _command or _function.get() is not None:
        yield
        return
    token = _function.set(Door(arguments))
    try:
        yield
    finally:
        _function.reset(token)


def is_command_line() -> bool:
    """Whether the user stands at the command line."""
    return _door().is_command_line


def as_argument(path: str, value: Any = ..., *, at: str = "") -> str:
    """Return the words that give a setting or an argument at the present door, see `Door.argument`."""
    return _door().argument(path, value, at=at)


def as_call(function: str, **given: Any) -> str:
    """Return a call of a public function, or its command; see `Door.call`."""
    return _door().call(function, given)


def as_attribute(kind: str, column: str, option: str = "") -> str:
    """Return the words that make an attribute of a column, see `Door.attribute`."""
    return _door().attribute(kind, column, option)


def as_attributes(specs: Sequence[Mapping[str, Any]]) -> str:
    """Return the words that give a training attributes, see `Door.attributes`."""
    return _door().attributes(specs)
