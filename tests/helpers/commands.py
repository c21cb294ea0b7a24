"""Fixtures that run commands in this process."""

from __future__ import annotations

from collections.abc import Callable

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
