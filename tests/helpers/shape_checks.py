"""Shapes of tensors are checked in every call of subpackages that annotate them, by the import hook of jaxtyping.

What torch compiles or exports is not checked: the checks cannot be traced, and sizes that are symbols there would be
fixed by them. Processes that tests start are not checked either. In a test with many calls, such as a training, the
first hundred are checked, and then one in fifty-one.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import beartype
import jaxtyping
import pytest
import torch

_SOURCE = Path(__file__).parents[2] / "src"
_SUBPACKAGES = ("functional", "methods")
_FIRST_CALLS, _ONE_IN = 100, 51

MODULES = sorted(
    ".".join(file.relative_to(_SOURCE).with_suffix("").parts)
    for package in ("attribune", "attribune_lab")
    if sys.modules.get(package, ...) is not None  # the lab may be hidden
    for subpackage in _SUBPACKAGES
    for file in (_SOURCE / package / subpackage).glob("*.py")
    if file.stem != "__init__"
)


def check_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the arguments and results that are tensors; mypy checks the others."""
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if _has_shape(hint)}
    return beartype.beartype(function) if function.__annotations__ else function


def _has_shape(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(hint))


def leave_classes_alone(patch: pytest.MonkeyPatch) -> None:
    """Take the checks off all classes: torch.compile cannot trace those of objects that are made within its graph."""
    for name in MODULES:
        module = importlib.import_module(name)
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == name:
                for attribute, member in list(vars(kind).items()):
                    if inspect.isfunction(member) and hasattr(member, "__wrapped__"):
                        manages = member.__globals__["__name__"] == "contextlib"
                        plain = inspect.unwrap(member)
                        patch.setattr(kind, attribute, contextmanager(plain) if manages else plain)


class _Calls:
    """Counts the calls of a test, to tell those that are checked."""

    def __init__(self) -> None:
        self.made = 0

    def is_passed_over(self, _: object) -> bool:
        if torch.compiler.is_compiling() or torch.compiler.is_exporting():
            return True
        self.made += 1
        return self.made > _FIRST_CALLS and self.made % _ONE_IN != 0


CALLS = _Calls()
type(jaxtyping.config).jaxtyping_disable = property(  # type: ignore[attr-defined,method-assign]
    CALLS.is_passed_over, lambda _, value: None
)
jaxtyping.install_import_hook(MODULES, "shape_checks.check_shapes")
