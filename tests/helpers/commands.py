"""Fixtures that run commands in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from attribune.apps.cli import main

Outcome = tuple[int, str, str]
"""Exit code, stdout and stderr."""
Attribune = Callable[..., Outcome]
Fails = Callable[..., str]
Words = Callable[..., list[str]]
"""The words of a command, with more of them."""


@pytest.fixture
def attribune(capsys: pytest.CaptureFixture[str]) -> Attribune:
    def run(*words: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def fails(attribune: Attribune) -> Fails:
    """Run a command that must fail with a message on stderr, nothing on stdout and no traceback; gives the message."""

    def run(*words: object, code: int = 1) -> str:
        found, out, err = attribune(*words)
        assert (found, out) == (code, "")
        assert "Traceback" not in err
        message = err[err.index("error: ") :]
        assert len(message) < 1200
        return message

    return run


def assert_verbs_run(run: Path, table: Path, output: Path, *more: Sequence[str]) -> None:
    """The verbs that read a run with an attribute `user` and a table end without an error, and so do further ones."""
    for words in (
        ["evaluate", str(run), str(table)],
        ["predict", str(run), str(table), "--panel", "user", "--output", str(output / "panel.csv")],
        ["report", str(run), "--output", str(output / "page.html")],
        ["explain", str(run), str(table), "--output", str(output / "explained.html")],
        ["describe", str(run)],
        *more,
    ):
        assert main(words) == 0, words
