"""The table of equations.md: made of the ``Source`` lines of the functions, and of who calls and tests them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attribune.functional
import attribune_lab.functional
from pages.cells import table

ROOT = Path(__file__).parents[2]
_GENERAL = ("first_token", "last_token", "max_tokens")  # of no paper


FUNCTIONS = {
    name: getattr(module, name)
    for module in (attribune.functional, attribune_lab.functional)
    for name in module.__all__
    if name not in (*_GENERAL, "Activation")
}


def equations() -> list[str]:
    """A line for each function of `functional`, the library's and the lab's, and each paper it is from."""
    rows = [
        [paper, equation, f"`functional.{name}`", "<br>".join(callers(name)), "<br>".join(parity_tests(name))]
        for name in FUNCTIONS
        for paper, equation in sources(name)
    ]
    head = ["paper", "equation", "function", "called by", "parity test"]
    return table(head, sorted(rows), words=range(len(head)))


def sources(name: str) -> Iterator[tuple[str, str]]:
    """The papers of a function and the places in them."""
    docstring = inspect.getdoc(FUNCTIONS[name]) or ""
    found = re.search(r"^Source: (.+?)\.$", docstring, re.MULTILINE)
    if found is None:
        raise ValueError(f"functional.{name} has no line 'Source: PAPER YEAR, PLACE.' in its docstring")
    for source in re.split("; (?=[A-Z])", found[1]):
        paper, equation = re.fullmatch(r"(.+? \d{4}(?: \(.+?\))?), (.+)", source).groups()  # type: ignore[union-attr]
        yield paper, equation


@cache
def callers(name: str) -> list[str]:
    """The classes and functions outside `functional` that call a function, or the functions where none does."""
    outside = [
        f"`{place}.{defined}`"
        for place, defined, code in definitions()
        if not _is_functional(place) and re.search(rf"(?<![\w.])(functional\.)?{name}\(", code) and _reads(place, name)
    ]
    inside = [(defined, code) for place, defined, code in definitions() if _is_functional(place) and defined != name]
    calls = [defined for defined, code in inside if re.search(rf"\b{name}\(", code)]
    same = [defined for defined, code in inside if f"`{name}`" in code]  # it computes the same otherwise
    return outside or [f"`functional.{defined}`" for defined in calls or same]


@cache
def definitions() -> list[tuple[str, str, str]]:
    """The classes and functions of both packages: file, name, and code without comments.

    Of a function of `functional`, the code is that of its body: the definition itself is no call.
    """
    return [
        (
            place,
            definition.name,
            ast.unparse(definition.body if _is_functional(place) else definition),  # type: ignore[arg-type]
        )
        for place, file in _files()
        for definition in ast.parse(_source(file)).body
        if isinstance(definition, ast.FunctionDef)
        or (isinstance(definition, ast.ClassDef) and not _is_functional(place))
    ]


@cache
def _files() -> list[tuple[str, Path]]:
    """The files of both packages, by the name of the module without the library's."""
    return [
        (".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removeprefix("attribune."), file)
        for package in ("attribune", "attribune_lab")
        for file in sorted((ROOT / "src" / package).rglob("*.py"))
    ]


def _reads(place: str, name: str) -> bool:
    """Whether a file calls the function of `functional` by this name, and not another one of its own."""
    source = _source(dict(_files())[place])
    imports = re.findall(r"^from \S+\.functional\S* import ((?:[^(\n]+)|\([^)]+\))", source, re.MULTILINE)
    return f"functional.{name}(" in source or any(re.search(rf"\b{name}\b", names) for names in imports)


def _is_functional(place: str) -> bool:
    return "functional" in place.split(".")


def parity_tests(name: str) -> list[str]:
    """The parity tests that call a function, by a helper or themselves; else those of its file or method."""
    tests = sorted((ROOT / "tests").glob("**/parity/test_*.py"))
    helpers = {
        file.stem for file in (ROOT / "tests" / "helpers").glob("*.py") if f"functional.{name}(" in _source(file)
    }
    direct = [
        file
        for file in tests
        if re.search(rf"\b(functional|lab)\.{name}\(", _source(file))
        or any(f"import {helper}" in _source(file) for helper in helpers)
    ]
    stem = FUNCTIONS[name].__module__.rpartition(".")[2]
    of_file = [file for file in tests if file.stem == f"test_{stem}"]
    chosen = direct or of_file or [file for file in tests if f"{stem.capitalize()}(" in _source(file)]
    if not chosen:
        raise ValueError(f"no parity test calls functional.{name}")
    return [f"`{file.relative_to(ROOT)}`" for file in chosen]


@cache
def _source(file: Path) -> str:
    return file.read_text(encoding="utf-8")


TABLES = {"equations.md": {"equations": equations}}
