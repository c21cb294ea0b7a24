"""The methods, one file each, and the table by which ``--method`` finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attribune.core.door import as_argument, as_attribute
from attribune.core.flags import FLAGS
from attribune.core.plugins import absent_plugins, load_plugins
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError
from attribune.methods.adapter import Adapter
from attribune.methods.base import Method
from attribune.methods.chim import Chim
from attribune.methods.combined import Combined
from attribune.methods.concat import ConcatText, ConcatWord
from attribune.methods.config import MethodConfig
from attribune.methods.e2ln import E2ln
from attribune.methods.host import Host
from attribune.methods.in_text import InText
from attribune.methods.injector import Injector
from attribune.methods.ma_bert import AttentionBias, Maa, TinyMaa
from attribune.methods.modulated import Modulated
from attribune.methods.plain import Plain
from attribune.methods.pln import Pln
from attribune.methods.plora import Plora
from attribune.methods.poly import Poly
from attribune.methods.prefix import Prefix
from attribune.methods.tokens import Tokens
from attribune.methods.upa import La, Upa

__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "Adapter",
    "AttentionBias",
    "Chim",
    "Combined",
    "ConcatText",
    "ConcatWord",
    "E2ln",
    "Host",
    "InText",
    "Injector",
    "La",
    "Maa",
    "Method",
    "MethodConfig",
    "Modulated",
    "Plain",
    "Pln",
    "Plora",
    "Poly",
    "Prefix",
    "TinyMaa",
    "Tokens",
    "Upa",
    "check_compares",
    "check_gives_vectors",
    "check_reads_descriptions",
    "check_reads_tokens",
    "check_written",
    "method_from_dict",
]

METHODS: dict[str, type[MethodConfig]] = {
    method.name: method
    for method in (
        Plain,
        Adapter,
        Injector,
        Tokens,
        Prefix,
        La,
        Upa,
        Chim,
        ConcatText,
        ConcatWord,
        AttentionBias,
        Maa,
        TinyMaa,
        Pln,
        E2ln,
        Plora,
        Modulated,
        Poly,
        InText,
    )
}
DEFAULT_METHOD: str = FLAGS["method.name"].default
_WHOLE_POINTS = {"text": "text", "pool": "vector", "classify": "vector"}
"""The points that are not at a token, and what of a document they are at."""


def method_from_dict(settings: dict[str, Any]) -> MethodConfig:
    """Read the settings of a method from ``{"name": ..., option: value}``.

    A combination is named by a sum and holds the options of each method under its name:
    ``{"name": "first+second", "first": {option: value}}``.

    Raises:
        ConfigError: for an unknown method or option; the message lists those there are.
    """
    options = dict(settings)
    name = options.pop("name", None)
    if isinstance(name, str) and "+" in name:
        return _combination(name, options)
    if not isinstance(name, str) or name not in METHODS:
        known = f"choose one of {', '.join(METHODS)}, or a sum of them"
        if (missing := absent_plugins("methods").get(str(name))) is not None:
            raise ConfigError(f"the method {name!r} {missing}")
        rest = did_you_mean_or(str(name), METHODS, known)
        raise ConfigError(f"unknown method {name!r}{rest}")
    return METHODS[name].from_dict(options)


def _combination(name: str, options: dict[str, Any]) -> MethodConfig:
    parts = []
    for part in (word.strip() for word in name.split("+")):
        own = options.pop(part, {})
        if not isinstance(own, dict) or own.get("name", part) != part:
            raise ConfigError(f"method {name!r}: the options of {part!r} are {own!r}: give a tree of its options")
        parts.append(method_from_dict({**own, "name": part}))
    if options:
        raise ConfigError(
            f"method {name!r} has no option {', '.join(sorted(options))}: write each option under the name of its "
            f"method, as in {parts[0].name}: {{option: value}}"
        )
    return Combined(parts=tuple(parts))


def check_reads_tokens(method: MethodConfig, *, task: str) -> None:
    """Refuse a method that acts at the whole text or at the document vector, for a task that scores tokens instead."""
    if foreign := [point for point in method.points if point in _WHOLE_POINTS]:
        able = ", ".join(name for name, kind in METHODS.items() if not {*kind.points}.intersection(_WHOLE_POINTS))
        raise ConfigError(
            f"method {method.name!r} acts at the point {' and '.join(foreign)}, on the {_WHOLE_POINTS[foreign[0]]} of "
            f"a document, and the task {task!r} scores tokens: choose one of {able}, or a sum of them"
        )


def check_reads_descriptions(method: MethodConfig, described: Sequence[str]) -> None:
    """Refuse a method that reads attributes, but no descriptions of their values.

    Args:
        described: names of the attributes whose values are described.
    """
    if described and method.uses_attributes and not method.reads_descriptions:
        raise ConfigError(
            f"method {method.name!r} has no vectors of values, which the descriptions of {described[0]!r} could give: "
            "leave the tables of values out (of a continuous number take the bins, "
            f"{as_attribute('numeric', 'COLUMN')}; of dates name the parts without the age in data.attributes), or "
            "choose another method"
        )


def check_compares(method: MethodConfig, *, task: str) -> None:
    """Refuse a method that reads more in front of a text, for a task that compares texts."""
    if "text" in method.points:
        raise ConfigError(
            f"method {method.name!r} puts more in front of one text, and the task {task!r} compares two: choose "
            "another method"
        )


def check_written(method: MethodConfig, names: Sequence[str]) -> None:
    """Refuse a method beside which no values are written in front of a text.

    Args:
        names: of the attributes that were chosen for it.
    """
    if names and (refusal := method.written_refusal) is not None:
        raise ConfigError(
            f"written is {', '.join(names)}, and method {method.name!r} {refusal}: leave "
            f"{as_argument('data.written')} out, or choose another method"
        )


def check_gives_vectors(method: MethodConfig, *, task: str) -> None:
    """Refuse a method that changes the classifier or has some of its own, for a task that has none."""
    if "classify" in method.points or method.has_classifiers:
        able = ", ".join(
            name for name, kind in METHODS.items() if "classify" not in kind.points and not kind.has_classifiers
        )
        raise ConfigError(
            f"method {method.name!r} acts on a classifier, and the task {task!r} has none, but compares vectors: "
            f"choose one of {able}"
        )


METHODS |= load_plugins("methods", MethodConfig) | METHODS  # a plugin replaces none of ours
