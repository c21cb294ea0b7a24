"""The table of equations.md: made of the ``Source`` lines of the functions, and of who calls and tests them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attribune import functional
from pages.cells import table

ROOT = Path(__file__).parents[2]
_GENERAL = ("first_token", "last_token", "max_tokens", "mean_tokens")  # of no paper


def equations() -> list[str]:
    """A line for each function of `attribune.functional` and each paper it is from."""
    rows = [
        [paper, equation, f"`functional.{name}`", "<br>".join(callers(name)), "<br>".join(parity_tests(name))]
        for name in functional.__all__
        if callable(getattr(functional, name)) and name not in (*_GENERAL, "Activation")
        for paper, equation in sources(name)
    ]
    head = ["paper", "equation", "function", "called by", "parity test"]
    return table(head, sorted(rows), words=range(len(head)))


def sources(name: str) -> Iterator[tuple[str, str]]:
    """The papers of a function and the places in them."""
    docstring = inspect.getdoc(getattr(functional, name)) or ""
    found = re.search(r"^Source: (.+?)\.$", docstring, re.MULTILINE)
    if found is None:
        raise ValueError(f"functional.{name} has no line 'Source: PAPER YEAR, PLACE.' in its docstring")
    for source in re.split("; (?=[A-Z])", found[1]):
        paper, equation = re.fullmatch(r"(.+? \d{4}(?: \(.+?\))?), (.+)", source).groups()  # type: ignore[union-attr]
        yield paper, equation


def callers(name: str) -> list[str]:
    """The classes and functions of methods and backbones that call a function, or the functions where none does."""
    outside = [
        f"`{room}.{file}.{defined}`"
        for room in ("methods", "backbones")
        for file, defined, code in definitions(room)
        if f"functional.{name}(" in code
    ]
    return outside or [
        f"`functional.{defined}`"
        for _, defined, code in definitions("functional")
        if defined != name and re.search(rf"\b{name}\(", code)
    ]


@cache
def definitions(room: str) -> list[tuple[str, str, str]]:
    """The classes and functions of a subpackage: file, name, and code without comments.

    Of a function of `functional`, the code is that of its body: the definition itself is no call.
    """
    return [
        (
            file.stem,
            definition.name,
            ast.unparse(definition.body if room == "functional" else definition),  # type: ignore[arg-type]
        )
        for file in sorted((ROOT / "src" / "attribune" / room).glob("*.py"))
        for definition in ast.parse(_source(file)).body
        if isinstance(definition, ast.FunctionDef) or (isinstance(definition, ast.ClassDef) and room != "functional")
    ]


def parity_tests(name: str) -> list[str]:
    """The parity tests that call a function, by a helper or themselves; else those of its file or method."""
    tests = sorted((ROOT / "tests" / "parity").glob("test_*.py"))
    helpers = {
        file.stem for file in (ROOT / "tests" / "helpers").glob("*.py") if f"functional.{name}(" in _source(file)
    }
    direct = [
        file
        for file in tests
        if f"functional.{name}(" in _source(file) or any(f"import {helper}" in _source(file) for helper in helpers)
    ]
    stem = getattr(functional, name).__module__.rpartition(".")[2]
    of_file = [file for file in tests if file.stem == f"test_{stem}"]
    chosen = direct or of_file or [file for file in tests if f"{stem.capitalize()}(" in _source(file)]
    if not chosen:
        raise ValueError(f"no parity test calls functional.{name}")
    return [f"`{file.relative_to(ROOT)}`" for file in chosen]


@cache
def _source(file: Path) -> str:
    return file.read_text(encoding="utf-8")


TABLES = {"equations.md": {"equations": equations}}
