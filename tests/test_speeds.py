"""The marks that choose what the targets of make run."""

from __future__ import annotations

from pathlib import Path

import pytest


class Case:
    """A case of a test, as pytest collects it."""

    def __init__(self, nodeid: str, *marks: pytest.Mark) -> None:
        self.nodeid = nodeid
        self.marks = {mark.name: mark for mark in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name).mark


def test_one_in_n_leaves_each_nth_case_to_make_test(pytestconfig: pytest.Config) -> None:
    conftest = pytestconfig.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))
    assert conftest is not None
    third, plain, exhaustive = pytest.mark.one_in(3).mark, pytest.mark.slow.mark, pytest.mark.exhaustive.mark
    cases = [Case(f"test_a[{number}]", third) for number in range(7)]
    cases += [Case("test_a[more]", third, exhaustive), Case("test_b[0]", third), Case("test_c", plain)]
    conftest._leave_cases_out(cases)
    left = [case.nodeid for case in cases if "exhaustive" not in case.marks]
    assert left == ["test_a[0]", "test_a[3]", "test_a[6]", "test_b[0]", "test_c"]
