"""The import contract holds, and an import that breaks it is found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import attribune

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGE = Path(attribune.__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (Path(sys.executable).parent / "lint-imports").exists(), reason="needs import-linter"),
]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the packages, with the contract."""
    for package in (PACKAGE, PACKAGE.with_name("attribune_lab")):
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_tests_of_the_library_import_nothing_of_the_lab() -> None:
    """Some do inside a test that is skipped where it is hidden; pages of the documentation tell of it."""
    found = {
        str(file.relative_to(TESTS))
        for file in TESTS.rglob("*.py")
        if re.search(r"^(from|import) attribune_lab", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    of_the_lab = {"helpers/finished_benchmarks.py", "helpers/published.py"}
    in_programs = {"test_wheel.py", "core/test_plugins.py"}  # that they write
    assert {name for name in found if not name.startswith(("lab/", "docs/"))} == of_the_lab | in_programs


def lint_imports(folder: Path) -> tuple[int, str]:
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_the_contract_is_kept(copied: Path) -> None:
    code, said = lint_imports(copied)
    assert code == 0, said


@pytest.mark.parametrize(
    ("file", "code", "broken"),
    [
        ("functional/upward", "from attribune.apps.cli import main\n", "attribune.functional.upward -> attribune.apps"),
        ("core/upward", "import attribune.errors\nimport attribune.training.train\n", "attribune.core.upward -> "),
        ("one_without_a_place/__init__", "", "one_without_a_place"),
        ("training/of_the_lab", "import attribune_lab.benchmark\n", "attribune.training.of_the_lab -> attribune_lab"),
    ],
)
def test_a_violation_is_named(copied: Path, file: str, code: str, broken: str) -> None:
    path = copied / "attribune" / f"{file}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    ended, said = lint_imports(copied)
    assert ended != 0
    assert broken in " ".join(said.split()), said


def test_a_circle_between_files_is_named(copied: Path) -> None:
    for one, other in (("round", "trip"), ("trip", "round")):
        (copied / "attribune" / "schema" / f"{one}.py").write_text(f"import attribune.schema.{other}\n")
    ended, said = lint_imports(copied)
    assert ended != 0
    assert "attribune.schema" in said
    assert "round" in said
    assert "trip" in said
