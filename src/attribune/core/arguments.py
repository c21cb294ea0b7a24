"""Arguments of public functions, checked against their annotations, so that a wrong one is named where it is given."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache, reduce, wraps
from operator import or_
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError

from attribune.core.config import short_repr
from attribune.core.door import called
from attribune.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
_UNPACK = "Unpack["
_SETTINGS = ConfigDict(arbitrary_types_allowed=True, strict=True)


def as_list(given: str | Iterable[str] | None) -> list[str]:
    """Return what is given as one text or as several, as a list; an empty one for None."""
    return [given] if isinstance(given, str) else list(() if given is None else given)


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse arguments of a wrong type by a ConfigError that names the argument, the value and the type.

    Messages inside speak of its arguments, see `attribune.core.door`.

    Values are passed on as they are. Which texts a `Literal` allows is left to the function, whose message has the
    cure; so is what is annotated with names that are imported for type checkers alone.
    """
    signature = inspect.signature(function)
    annotations = _annotations(function, signature)
    open_name = next((one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), "")
    is_closed = str(signature.parameters[open_name].annotation).startswith(_UNPACK) if open_name else False

    names = frozenset([*annotations, *signature.parameters])

    @cache
    def adapter(name: str) -> TypeAdapter[Any] | None:
        if name not in annotations:
            return None
        annotation, names = annotations[name]
        try:
            kind = eval(annotation, names)
        except NameError:
            return None
        # An alias that is a text itself stands for names that only type checkers know.
        return None if kind is Any or isinstance(kind, str) else TypeAdapter(_checkable(kind), config=_SETTINGS)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # whose own message says it best
        more = given.pop(open_name, {})
        if is_closed and (unknown := [name for name in more if name not in annotations]):
            raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {unknown[0]!r}")
        for name, value in {**given, **more}.items():
            kind = adapter(name)
            if kind is None:
                continue
            annotation, _ = annotations[name]
            if not _fits(kind, value) or ("Path" in annotation and isinstance(value, str) and "\0" in value):
                raise ConfigError(
                    f"{function.__qualname__}: {name} is {short_repr(value)}, of the type {type(value).__name__}: give "
                    f"{_in_words(annotation)}"
                )
        with called(names):
            return function(*args, **kwargs)

    return checked


_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "Sequence[str]": "a list of texts, such as ['a', 'b']",
}


def _in_words(annotation: str) -> str:
    """Return an annotation for a message: plain types in words, and others as they are written."""
    kinds, node = list[str](), ast.parse(annotation, mode="eval").body
    while isinstance(node, ast.BinOp):
        kinds.append(ast.unparse(node.right))
        node = node.left
    kinds.append(ast.unparse(node))
    return " or ".join(_WORDS.get(kind, kind) for kind in reversed(kinds))


def _annotations(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the annotation of each argument, and of those of an unpacked TypedDict, with the names that it may use."""
    names, found = getattr(function, "__globals__", {}), dict[str, tuple[str, dict[str, Any]]]()
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        if parameter.kind is parameter.VAR_KEYWORD and str(annotation).startswith(_UNPACK):
            unpacked = eval(annotation.removeprefix(_UNPACK).removesuffix("]"), names)
            own = vars(sys.modules[unpacked.__module__])
            found |= {one: (kind.__forward_arg__, own) for one, kind in unpacked.__annotations__.items()}
        elif (
            parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and annotation is not parameter.empty
        ):
            found[name] = annotation, names
    return found


def _fits(kind: TypeAdapter[Any], value: Any) -> bool:
    try:
        kind.validate_python(value.tolist() if hasattr(value, "tolist") else value)
    except (ValidationError, RecursionError):
        return False
    return True


def _checkable(kind: Any) -> Any:
    """Return an annotation with the types of its literals in their place, and classes that are looked at no further."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return reduce(or_, {type(value) for value in parts})
    if origin in (Union, UnionType):
        return reduce(or_, map(_checkable, parts))
    if origin is not None and origin.__module__ in ("collections.abc", "builtins"):
        return origin[tuple(part if part is ... else _checkable(part) for part in parts)]
    if not isinstance(kind, type) or kind.__module__ in ("builtins", "pathlib"):
        return kind if origin is None else Any
    is_open = kind is Any or (getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False))
    return Any if is_open else InstanceOf[kind]  # type: ignore[misc]
