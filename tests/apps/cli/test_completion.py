"""The scripts by which shells complete, and a shell that does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Outcome
from lab_methods import needs_lab

pytestmark = pytest.mark.slow

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word of a line."""
    code = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; '
        '_shtab_attribune; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "--norc", "-c", code, "bash", str(script), *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=script.parent)
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.fixture
def script(tmp_path: Path, attribune: Callable[..., Outcome]) -> Path:
    code, out, err = attribune("completion", "bash")
    assert (code, err) == (0, "")
    (tmp_path / "reviews.csv").write_text("")
    (tmp_path / "runs").mkdir()
    file = tmp_path / "script"
    file.write_text(out)
    return file


@needs_lab
@needs_bash
def test_bash_completes_verbs_flags_and_files(script: Path) -> None:
    assert completed(script, "attribune", "pre") == ["predict"]
    assert {"list", "info", "prepare", "stats"} <= set(completed(script, "attribune", "data", ""))
    assert completed(script, "attribune", "train", "--attr") == ["--attributes"]
    assert completed(script, "attribune", "train", "--verb") == ["--verbose"]
    assert completed(script, "attribune", "predict", "--quantise", "i") == ["int8"]
    assert completed(script, "attribune", "train", "re") == ["reviews.csv"]
    assert completed(script, "attribune", "train", "--output", "r") == ["runs"]
    assert completed(script, "attribune", "train", "nothing-like-this") == []


@pytest.mark.parametrize(
    ("shell", "part"),
    [
        ("zsh", "--attributes"),
        ("fish", "complete -c attribune"),
        ("fish", "init-attributes"),
        ("tcsh", "'c/--init-attributes=/d/'"),
    ],
)
def test_scripts_of_other_shells(shell: str, part: str, attribune: Callable[..., Outcome]) -> None:
    code, script, _ = attribune("completion", shell)
    assert (code, part in script) == (0, True)
    assert script.startswith("#compdef attribune\n") == (shell == "zsh")
