"""Help and tables as a terminal of 80 columns shows them, beside files; ``make golden`` writes these anew.

Look at the difference before you commit it: these files are what people see.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import pytest
from lab_methods import needs_lab

from attribune.apps.cli import main

HERE = Path(__file__).parent
RUN = HERE.parents[1] / "fixtures" / "format_1" / "injector"
WORDS = {
    "help": [],
    "help_train": ["train", "--help"],
    "help_benchmark": ["benchmark"],
    "methods": ["methods"],
    "methods_all": ["methods", "--all"],
    "methods_sum": ["methods", "injector+chim"],
    "describe": ["describe", str(RUN)],
}

_WITH_LAB = ("help", "help_benchmark", "methods", "methods_all")  # what they show is other without it


def shown(words: list[str]) -> str:
    """What a command writes to stdout, which is no terminal."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        assert main(words) == 0
    return out.getvalue()


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_lab if name in _WITH_LAB else []) for name in WORDS])
def test_help_and_tables_are_those_of_the_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(WORDS[name])
    assert text == (HERE / "golden" / f"{name}.txt").read_text(encoding="utf-8"), "make golden writes the file anew"
    assert "\x1b" not in text
    if not name.startswith("describe"):  # the results of a run are wide
        assert max(map(len, text.splitlines())) <= 80


def write_all() -> None:
    """Write the files."""
    os.environ["COLUMNS"] = "80"
    (HERE / "golden").mkdir(exist_ok=True)
    for name, words in WORDS.items():
        (HERE / "golden" / f"{name}.txt").write_text(shown(words), encoding="utf-8")


if __name__ == "__main__":
    write_all()
