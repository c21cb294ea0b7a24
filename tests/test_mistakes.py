"""The mistakes planted to try the tests are mistakes: each changes one place, and the file can still be read."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "mistakes.py"
SOURCE = '''
def scaled(x, y, *, by=2, exact=True, limit=0.5):
    """Of 3 words."""
    if exact and not y:
        return -x
    if (by > 1) or limit:
        x = x.sum(-1) + y.mean(dim=1) - 7
    elif limit > 3:
        return y
    return x if exact else "a" + y
'''


@pytest.fixture(scope="module")
def mistakes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mistakes", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mistakes", module)
        spec.loader.exec_module(module)
    return module


def test_all_kinds_are_found(mistakes: ModuleType) -> None:
    found = mistakes.Places("src/attribune/metrics/scaled.py", SOURCE).found
    changes = {(one.kind, one.was, one.becomes) for one in found}
    assert changes == {
        ("wrong default", "2", "3"),
        ("wrong default", "True", "False"),
        ("wrong default", "0.5", "0.25"),
        ("dropped condition", "exact and not y", "True"),
        ("dropped condition", "exact and not y", "exact"),
        ("dropped condition", "not y", "y"),
        ("sign", "-x", "x"),
        ("dropped condition", "(by > 1) or limit", "True"),
        ("dropped condition", "by > 1) or limit", "by > 1"),
        ("off by one", ">", ">="),
        ("off by one", "1", "2"),
        ("swapped axis", "-1", "-2"),
        ("sign", "+", "-"),
        ("swapped axis", "1", "0"),
        ("sign", "-", "+"),
        ("off by one", "7", "8"),
        ("dropped condition", "limit > 3", "True"),
        ("off by one", "3", "4"),
        ("dropped condition", "exact", "True"),
    }
    assert {one.subpackage for one in found} == {"metrics"}


def test_a_mistake_changes_one_place(mistakes: ModuleType) -> None:
    lines = SOURCE.splitlines()
    broken = []
    for one in mistakes.Places("src/attribune/metrics/scaled.py", SOURCE).found:
        planted = one.planted_in(SOURCE.encode()).decode().splitlines()
        assert [number for number, line in enumerate(planted, start=1) if line != lines[number - 1]] == [one.line]
        assert one.noted <= one.line or one.kind == "wrong default"
        try:
            ast.parse("\n".join(planted))
        except SyntaxError:
            broken.append(one.was)
    assert broken == ["by > 1) or limit"], "these are drawn again"


def test_tests_that_run_a_statement_are_noted(mistakes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = mistakes.Places("src/attribune/metrics/scaled.py", SOURCE).found
    noted: dict[str, Any] = {}
    exec(mistakes.with_notes(SOURCE, [(one.noted, number) for number, one in enumerate(found)]), noted)
    seen = set[int]()
    monkeypatch.setitem(sys.modules, "seen_mistakes", SimpleNamespace(seen=seen.add))
    assert noted["scaled"](3, 0) == -3
    assert {found[number].was for number in seen} == {"2", "True", "0.5", "exact and not y", "not y", "-x"}
