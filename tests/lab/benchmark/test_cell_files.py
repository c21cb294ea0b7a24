"""Files of finished cells, from which a benchmark goes on elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from commands import Outcome
from finished_benchmarks import names

from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune_lab.benchmark.cell_files import CellFiles
from attribune_lab.benchmark.experiment import Cell, Experiment
from attribune_lab.benchmark.results import BenchmarkFolder, CellResult
from attribune_lab.benchmark.source import SetSource
from attribune_lab.benchmark.tables import summarize

pytestmark = pytest.mark.usefixtures("cells_here")


@pytest.fixture
def files(finished: BenchmarkFolder, tmp_path: Path) -> CellFiles:
    """Those of a finished benchmark."""
    found = CellFiles(tmp_path / "files")
    assert found.exchange(finished, finished.experiment()) == []
    return found


def restored(files: CellFiles, experiment: Experiment, path: Path) -> BenchmarkFolder:
    folder = BenchmarkFolder(path)
    folder.begin(experiment)
    files.exchange(folder, experiment)
    return folder


def test_the_tables_are_those_of_the_folder(finished: BenchmarkFolder, files: CellFiles, tmp_path: Path) -> None:
    """But for the half precision of logits; facts, rows and labels are the same."""
    experiment = finished.experiment()
    folder = restored(files, experiment, tmp_path / "there")
    assert names(folder) == names(finished)
    before, after = (summarize(one).tables[0] for one in (finished, folder))
    for mine, its in zip(before.lines, after.lines, strict=True):
        assert mine.cost == its.cost
        for name, found in mine.metrics.items():
            assert found.value == pytest.approx(its.metrics[name].value, abs=1e-3)
    for cell in experiment.cells():
        one, other = (CellResult(cell, place.place(cell)) for place in (finished, folder))
        scored, kept = (found.scores("validation") for found in (one, other))
        assert {"logits", "labels", "rows"} <= {*kept}
        assert all(name.startswith(("hidden", "values.")) for name in {*scored} - {*kept})
        for name, array in kept.items():
            assert array.dtype == scored[name].dtype
            np.testing.assert_allclose(array, scored[name], atol=2e-3)
        if cell.factor is None:
            assert all(np.array_equal(array, other.facts()[name]) for name, array in one.facts().items())


def test_a_benchmark_goes_on_from_the_files(
    experiment: dict[str, Any], files: CellFiles, tmp_path: Path, attribune: Callable[..., Outcome]
) -> None:
    """What is restored is not trained, what is missing is, and its file is written."""
    lost = files.path / "reviews" / "linear" / "1.json"
    content = json.loads(lost.read_text())
    lost.unlink()
    (tmp_path / "given.yaml").write_text(yaml.safe_dump(experiment))
    words = ("benchmark", "run", tmp_path / "given.yaml", "--output", tmp_path / "out", "--results", files.path)
    code, _, messages = attribune(*words)
    assert code == 0, messages
    assert [line for line in messages.splitlines() if line.endswith("begins")] == ["reviews/linear/1: begins"]
    again = json.loads(lost.read_text())
    assert again["arrays"]["test_logits"] == content["arrays"]["test_logits"]
    assert again["settings"] == content["settings"]


def test_files_of_other_settings_are_left(
    experiment: dict[str, Any], files: CellFiles, finished: BenchmarkFolder, tmp_path: Path
) -> None:
    """Those of the cells that a change concerns, be it of the trials that they need."""
    settings = [
        {"name": "injector", "method": {"name": "injector", "bottleneck": 8}} if one == "injector" else one
        for one in experiment["settings"]
    ]
    made = Experiment.from_dict({**experiment, "settings": settings, "reference": "none", "title": "Another title"})
    folder = BenchmarkFolder(tmp_path / "out")
    folder.begin(made)
    others = files.exchange(folder, made)
    assert {cell.setting.name for cell in others} == {"injector", "injector, shuffled"}
    assert {*names(folder)} | {cell.path for cell in others} == {*names(finished)}


def test_files_of_other_data_are_left(
    files: CellFiles, finished: BenchmarkFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of data that are elsewhere are restored, as the tables need no rows."""
    monkeypatch.setattr(SetSource, "checksum", lambda *_: "that of other data")
    folder = BenchmarkFolder(tmp_path / "changed")
    folder.begin(finished.experiment())
    assert {cell.path for cell in files.exchange(folder, folder.experiment())} == {*names(finished)}
    monkeypatch.setattr(SetSource, "check_files", lambda _: (_ for _ in ()).throw(DataError("it is not here")))
    assert files.exchange(folder, folder.experiment()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "1.json"),
        ('{"format": "other", "version": 2}', r"is damaged \(format: .*; version: "),
        ("[]", "is damaged"),
        (None, "is damaged"),
    ],
)
def test_a_damaged_file_is_named(
    finished: BenchmarkFolder, files: CellFiles, tmp_path: Path, content: str | None, message: str
) -> None:
    file = files.path / "reviews" / "linear" / "1.json"
    if content is None:
        tree = json.loads(file.read_text())
        tree["arrays"]["test_logits"]["logits"]["content"] = "AAAA"
        content = json.dumps(tree)
    file.write_text(content)
    with pytest.raises(ModelFolderError, match=message) as error:
        restored(files, finished.experiment(), tmp_path / "out")
    assert "remove it, and the cell is trained again" in str(error.value)
    assert not BenchmarkFolder(tmp_path / "out").is_done(_cell(finished, "reviews/linear/1"))


def test_a_folder_that_cannot_be_made_is_refused_before_the_first_cell(
    finished: BenchmarkFolder, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file cannot be made a folder \(File exists\): choose another"):
        CellFiles(tmp_path / "file").exchange(finished, finished.experiment())


def test_numbers_that_are_predicted_keep_their_digits(copy: BenchmarkFolder, tmp_path: Path) -> None:
    """Logits of one column, or large ones, are not rounded."""
    from safetensors.numpy import load_file, save_file

    from attribune.core.checksums import CHECKSUMS

    cell, other = (_cell(copy, name) for name in ("reviews/none/0", "reviews/none/1"))
    for one, change in ((cell, lambda x: x[:, :1] + 1234.567), (other, lambda x: x * 1e6)):
        file = copy.place(one) / "test_logits.safetensors"
        found = load_file(file)
        save_file(found | {"logits": np.ascontiguousarray(change(found["logits"]))}, file)
        (copy.place(one) / CHECKSUMS).unlink()
    files = CellFiles(tmp_path / "files")
    files.exchange(copy, copy.experiment())
    folder = restored(files, copy.experiment(), tmp_path / "there")
    for one in (cell, other):
        before, after = (load_file(place.place(one) / "test_logits.safetensors") for place in (copy, folder))
        np.testing.assert_array_equal(before["logits"], after["logits"])


def test_a_source_is_not_trained_again_for_cells_that_are_done(
    experiment: dict[str, Any], tmp_path: Path, attribune: Callable[..., Outcome]
) -> None:
    """Its model is not in its file; it is needed only where a cell that builds on it is missing."""
    sets = [{**experiment["sets"][0], "name": "source", "folds": [0]}]
    sets.append({**sets[0], "name": "moved", "attributes_from": "source"})
    made = {**experiment, "sets": sets, "settings": ["injector"], "rates": None}
    (tmp_path / "given.yaml").write_text(yaml.safe_dump(made))
    words = ("benchmark", "run", tmp_path / "given.yaml", "--results", tmp_path / "files", "--output")
    assert attribune(*words, tmp_path / "out")[0] == 0
    _, _, messages = attribune(*words, tmp_path / "there")
    assert "begins" not in messages
    (tmp_path / "files" / "moved" / "injector" / "0.json").unlink()
    shutil.rmtree(tmp_path / "there")
    _, _, messages = attribune(*words, tmp_path / "there")
    begun = [line.split(":")[0] for line in messages.splitlines() if line.endswith("begins")]
    assert begun == ["source/injector/0", "moved/injector/0"]


def _cell(folder: BenchmarkFolder, path: str) -> Cell:
    return next(cell for cell in folder.experiment().cells() if cell.path == path)
