"""Structure-aware mutation of JSON trees, and commands tried on what comes of it.

Every leaf and every branch of a tree is replaced by values of other types, keys are removed and added. A command that
is tried ends in one message, or works; tracebacks and hangs are counted, and there must be none.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import tally

from attribune.apps.cli import main

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "-1": -1,
    "0": 0,
    "10**9": 10**9,
    "10**30": 10**30,
    "1e308": 1e308,
    "empty text": "",
    "a text": "a text",
    "a list": ["a"],
    "a dict": {"a": 1},
    "half a pair": "\ud800",
    "NUL": "a\0b",
}
"""What takes the place of a value; one of the value's own type is a wrong value all the same."""
_SECONDS = 300.0  # none of them takes so long, also where many wait for one processor
_MEMORY = 3 << 30


@dataclass(frozen=True)
class Mutation:
    """A tree with one change, and what was changed."""

    place: str
    tree: Any


def mutations(tree: Any) -> Iterator[Mutation]:
    """All trees that differ from a tree in one place; of long lists, the first item stands for the others."""
    for path in _paths(tree):
        shown = ".".join(map(str, path)) or "the whole"
        for name, value in VALUES.items():
            yield Mutation(f"{shown} is {name}", _replaced(tree, path, value))
        if path and isinstance(path[-1], str):
            yield Mutation(f"{shown} is removed", _without(tree, path))
        if isinstance(_at(tree, path), dict):
            yield Mutation(f"{shown} has a key more", _replaced(tree, (*path, "more"), 1))
        if isinstance(_at(tree, path), list) and _at(tree, path):
            yield Mutation(f"{shown} is doubled", _replaced(tree, path, _at(tree, path) * 2))


def sampled(tree: Any, count: int, *, seed: int = 0) -> list[Mutation]:
    """Some of the mutations, the same for the same seed."""
    every = list(mutations(tree))
    return every if count >= len(every) else random.Random(seed).sample(every, count)


def _paths(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    branches = tree.items() if isinstance(tree, dict) else enumerate(tree[:1]) if isinstance(tree, list) else ()
    for key, branch in branches:
        yield from _paths(branch, (*path, key))


def _at(tree: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _replaced(tree: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return copy.deepcopy(value)
    tree = copy.deepcopy(tree)
    _at(tree, path[:-1])[path[-1]] = copy.deepcopy(value)
    return tree


def _without(tree: Any, path: tuple[str | int, ...]) -> Any:
    tree = copy.deepcopy(tree)
    del _at(tree, path[:-1])[path[-1]]
    return tree


class Hung(BaseException):
    """A command did not end in time; nothing in the package catches it."""


@dataclass
class Attempts:
    """Commands that are tried with little time and memory, and what became of them.

    Attributes:
        counts: attempts that were tried, refused with one message, that worked (survived), raised or hung.
        failed: what was tried and how it ended, for those that must not be.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)

    def command(self, name: str, *words: object) -> str:
        """Try a command line; returns what it wrote to stderr."""
        err = io.StringIO()
        try:
            with _time_limit(_SECONDS), _memory_limit(_MEMORY):
                outcome = _outcome([str(word) for word in words], err)
        except Hung:
            outcome, self.failed[name] = "hung", traceback.format_exc()
        except BaseException:
            outcome, self.failed[name] = "traceback", traceback.format_exc()
        self.counts.update(["tried", outcome])
        tally.tell(outcome)
        return err.getvalue()

    def check(self) -> None:
        """Fail when anything raised or hung, with the first of them in full."""
        first = next(iter(self.failed.items()), None)
        assert first is None, f"{dict(self.counts)}; {'; '.join(list(self.failed)[:20])}\n\n{first[0]}:\n{first[1]}"


def _outcome(words: list[str], err: io.StringIO) -> tally.Outcome:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = 2 if end.code == 2 else 1
    if code not in (0, 1, 2) or err.getvalue().count("error: ") < bool(code):
        raise AssertionError(f"exit code {code}: {err.getvalue()[-500:]}")
    return "refused" if code else "survived"


def flipped(content: bytes, *, seed: int) -> bytes:
    """The content with one to four bits turned over."""
    chance, changed = random.Random(seed), bytearray(content)
    for _ in range(chance.choice([1, 1, 4])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def write_tree(path: Path, tree: Any) -> None:
    """Write a tree as JSON, halves of pairs and all; a list in a log gets a line per item."""
    items = tree if path.suffix == ".jsonl" and isinstance(tree, list) else [tree]
    path.write_text("".join(json.dumps(item) + "\n" for item in items))


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hung(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where a library has swallowed the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _memory_limit(more: int) -> Iterator[None]:
    """Let the process take so many bytes of addresses more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
