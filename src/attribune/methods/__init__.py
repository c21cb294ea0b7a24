"""The methods, one file each, and the table by which ``--method`` finds them."""

from __future__ import annotations

import difflib
from typing import Any

from attribune.errors import ConfigError
from attribune.methods.adapter import Adapter
from attribune.methods.base import Host, Method, MethodConfig
from attribune.methods.chim import Chim
from attribune.methods.injector import Injector
from attribune.methods.plain import Plain
from attribune.methods.upa import Upa

__all__ = [
    "METHODS",
    "Adapter",
    "Chim",
    "Host",
    "Injector",
    "Method",
    "MethodConfig",
    "Plain",
    "Upa",
    "method_from_dict",
]

METHODS: dict[str, type[MethodConfig]] = {method.name: method for method in (Plain, Adapter, Injector, Upa, Chim)}


def method_from_dict(settings: dict[str, Any]) -> MethodConfig:
    """Settings of a method from ``{"name": ..., option: value}``.

    Raises:
        ConfigError: for an unknown method or option; the message lists those there are.
    """
    options = dict(settings)
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in METHODS:
        close = difflib.get_close_matches(str(name), METHODS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}{hint}")
    return METHODS[name].from_dict(options)
