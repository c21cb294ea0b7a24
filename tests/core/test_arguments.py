"""Arguments are checked against their annotations, and passed on as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from attribune.core.arguments import checked_arguments
from attribune.errors import ConfigError

Kind = Literal["a", "b"]


@checked_arguments
def example(
    path: str | Path,
    count: int = 3,
    *,
    rate: float | None = None,
    kind: Kind = "a",
    names: str | Sequence[str] = (),
    values: Mapping[str, Sequence[str]] | None = None,
    anything: Any = None,
    unknown: NotImported = None,  # type: ignore[name-defined]  # noqa: F821
    **more: Any,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if name != "more"} | more


@pytest.mark.parametrize(
    "given",
    [
        {"path": "x"},
        {"path": Path("x"), "count": 0, "rate": 1},
        {"path": "x", "count": np.int64(3), "rate": np.float32(0.5)},
        {"path": "x", "kind": "c", "names": "abc", "values": {"a": ["b"]}},
        {"path": "x", "names": ["a"], "anything": object(), "unknown": object(), "other": object()},
        {"path": "x", "names": np.array(["a", "b"]), "values": {}},
    ],
)
def test_what_is_right_is_passed_on_as_it_is(given: dict[str, Any]) -> None:
    found = example(**given)
    assert all(found[name] is value for name, value in given.items())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": None}, r"example: path is None, of the type NoneType: give a text or Path"),
        ({"path": b"x"}, "path is b'x', of the type bytes"),
        ({"path": "x", "count": 2.5}, "count is 2.5, of the type float: give a whole number"),
        ({"path": "x", "count": "2"}, "count is '2'"),
        ({"path": "x", "count": True}, "count is True, of the type bool"),
        ({"path": "x", "count": np.array([1, 2])}, "count is array"),
        ({"path": "x", "kind": 3}, "kind is 3, of the type int: give Kind"),
        ({"path": "x", "names": [1]}, r"names is \[1\], .*: give a text or a list of texts, such as \['a', 'b'\]"),
        ({"path": "x", "names": {"a": 1}}, "names is {'a': 1}, of the type dict"),
        ({"path": "x", "values": {"a": "b"}}, "values is {'a': 'b'}"),
        ({"path": "x", "values": [("a", ["b"])]}, "values is .* of the type list"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        example(**given)


def test_what_is_missing_is_said_by_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        example()
    assert example.__name__ == "example"
