"""Signatures of the classes whose constructors pydantic makes, for the API pages of the site.

mkdocstrings reads the source without running it, and these constructors are not in the source.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, get_type_hints

import griffe

import attribune


class FieldSignatures(griffe.Extension):
    """Gives the public classes of pydantic the parameters that Python sees."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace their constructors once the package is read; the lab exports none."""
        for name in attribune.__all__ if pkg.name == "attribune" else ():
            public = getattr(attribune, name)
            if hasattr(public, "__pydantic_validator__"):
                room = public.__module__.removeprefix("attribune.")
                pkg[f"{room}.{name}"].set_member("__init__", constructor(public))


def constructor(public: type) -> griffe.Function:
    """Return the constructor of a class with the types and defaults of its fields."""
    types = get_type_hints(public)
    parameters = [
        griffe.Parameter(
            one.name,
            annotation=shown_type(types[one.name]),
            kind=griffe.ParameterKind[one.kind.name.lower()],
            default=None if one.default is one.empty else shown_default(one.default),
        )
        for one in inspect.signature(public).parameters.values()
    ]
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters))


def shown_type(hint: Any) -> str:
    """Write a type as it is written in code, without the modules of its parts."""
    name = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    name = re.sub(r"\b(?:\w+\.)+(?=\w)", "", name)
    return re.sub(r"^Optional\[(.*)\]$", r"\1 | None", name)


def shown_default(value: object) -> str:
    """Write a default; one that is made anew, or that is a tree of settings, is left out."""
    text = repr(value)
    return "..." if text.startswith("<") or "(name=" in text else text
