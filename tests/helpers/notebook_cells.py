"""Runs the cells of a notebook as one Python, and stores what they show:

    python tests/helpers/notebook_cells.py [NAME ...]

runs notebooks of examples/notebooks in an empty folder, with the default backbone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
INSTALL = "%pip install"  # of a cell that a test need not run


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as JSON."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def run_cells(cells: list[dict[str, Any]], *, name: str, fewer: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run the code, and put what each cell shows into its outputs.

    Args:
        fewer: what is replaced in the code, such as the number of rows.

    Returns:
        The variables, with the last expression of the last cell as `_`.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        code = "".join(cell["source"])
        cell["outputs"], cell["execution_count"] = [], None
        if INSTALL in code:
            continue
        for old, new in (fewer or {}).items():
            code = code.replace(old, new)
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        place, printed, count = f"{name}, cell {number}", io.StringIO(), count + 1
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, place, "exec", dont_inherit=True), namespace)
            if last is not None:
                namespace["_"] = eval(compile(ast.Expression(last.value), place, "eval", dont_inherit=True), namespace)  # type: ignore[attr-defined]
        cell["execution_count"] = count
        if printed.getvalue():
            lines = printed.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines})
        if last is not None and namespace["_"] is not None:
            cell["outputs"].append(_result(namespace["_"], count))
    return namespace


def _result(value: Any, count: int) -> dict[str, Any]:
    """What a notebook shows of a value, as plain text and, where it has any, as HTML."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if (html := getattr(value, "_repr_html_", lambda: None)()) is not None:
        data["text/html"] = html.splitlines(keepends=True)
    return {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}


def main(names: list[str]) -> None:
    """Run the named notebooks, or all, and store their outputs."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        notebook = read_notebook(path)
        with tempfile.TemporaryDirectory() as folder:
            before = Path.cwd()
            os.chdir(folder)
            try:
                run_cells(notebook["cells"], name=path.name)
            finally:
                os.chdir(before)
        path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
