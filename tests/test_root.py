"""What lies at the root of the repository is meant to lie there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TO_READ = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
TO_BUILD = {"Dockerfile", "MANIFEST.in", "Makefile", "compose.yaml", "constraints.txt", "mkdocs.yml", "pyproject.toml"}
OF_TOOLS = {".dockerignore", ".gitignore", ".importlinter"}
PLACES = {
    ".csv": "tests/fixtures, or nowhere if a command wrote it",
    ".json": "tests/fixtures or benchmarks/results, or nowhere if a command wrote it",
    ".md": "docs",
    ".py": "examples, benchmarks or tests/helpers",
    ".sh": ".ci",
    ".yaml": "examples or benchmarks",
}


def misplaced(names: set[str]) -> list[str]:
    """Say where each file belongs that no list names."""
    return [
        f"{name} belongs in {PLACES.get(Path(name).suffix, 'a folder')}: move it, or name it in tests/test_root.py"
        for name in sorted(names - TO_READ - TO_BUILD - OF_TOOLS)
    ]


def test_tracked_files_at_the_root_are_meant_to_be_there() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git, and a checkout of the repository")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", ":(glob)*"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip(f"git lists no files: {listed.stderr.strip()}")
    names = set(listed.stdout.split("\0")) - {""}
    assert not misplaced(names)
    assert not (TO_READ | TO_BUILD | OF_TOOLS) - names, "a list names what is not there"


def test_a_stray_file_is_told_where_it_belongs() -> None:
    (said,) = misplaced({"d.csv", "README.md"})
    assert said.startswith("d.csv belongs in tests/fixtures, or nowhere if a command wrote it: ")
    assert misplaced({"notes"})[0].startswith("notes belongs in a folder: ")
