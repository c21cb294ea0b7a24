"""Which pages and notebooks of the documentation have changed since they were last run, they or what they call.

    python tests/helpers/executed_pages.py

writes the record anew; ``make test-all``, which runs every page, does so when all tests have passed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import ROOT, RUN, blocks_of

RECORD = ROOT / "tests" / "docs" / "executed.json"
VERBS = ROOT / "src" / "attribune" / "apps" / "cli"
EXECUTED = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "methods").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")),
]
"""All that tests run from the first block to the last."""


def executed(pages: list[Path]) -> list[object]:
    """Pages as parameters of a test: one that is as it was when it last ran is left to ``make test-all``."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return [
        pytest.param(
            page,
            id=page.stem if page.suffix == ".ipynb" else page.name,
            marks=[pytest.mark.exhaustive] if record.get(_name(page)) == state_of(page) else [],
        )
        for page in pages
    ]


def state_of(page: Path) -> str:
    """A digest of what a page runs and shows, and of the code of the public names and verbs that it uses."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        blocks = [("python", "".join(cell["source"])) for cell in cells]
    else:
        blocks = [(block.language, block.code) for block in blocks_of(text) if block.language in {*RUN, "text"}]
    parts = [f"{language}\n{code}" for language, code in blocks]
    python = [code for language, code in blocks if language == "python"]
    parts += sorted({source for code in python for source in _sources_of_names(code)})
    parts += sorted({source for language, code in blocks if language != "python" for source in _sources_of_verbs(code)})
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _sources_of_names(code: str) -> Iterator[str]:
    """The code of what a block imports from the package; of a module, that of all its file."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a line of a notebook that is no Python
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "attribune":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                named = getattr(module, alias.name, module)
                try:
                    yield inspect.getsource(named)
                except (TypeError, OSError):  # a table or a type alias
                    yield repr(sorted(named)) if isinstance(named, dict) else alias.name


def _sources_of_verbs(code: str) -> Iterator[str]:
    for verb in re.findall(r"\battribune ([a-z]+)\b", code):
        for file in sorted(VERBS.glob(f"{verb}*.py")):
            yield file.read_text(encoding="utf-8")


def main() -> None:
    """Write the record of all pages as they are now."""
    record = {_name(page): state_of(page) for page in EXECUTED}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
