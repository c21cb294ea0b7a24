"""The cheap baselines that are fitted beside a model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
from reporters import Notes
from trained_runs import TrainedRuns

from attribune.core.progress import Reporter
from attribune.errors import ConfigError
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.training.train import train

pytestmark = pytest.mark.slow

COLUMNS: dict[str, Any] = {"text": "text", "label": "stars", "attributes": ["user"]}


class Order(Notes):
    """Keeps when the model was checked, too."""

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        self.lines.append("checked")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of twelve words that say nothing, and a last one that says the label."""
    folder = tmp_path_factory.mktemp("baselines")
    for seed, (name, texts) in enumerate({"train": 60, "validation": 24, "test": 24}.items()):
        rows = small_runs.reviews(texts, seed=seed)
        told = [
            {**row, "text": " ".join(["so"] * 12 + ["good" if place % 2 else "bad", f"n{place}"]), "stars": place % 2}
            for place, row in enumerate(rows)
        ]
        small_runs.write_csv(folder / f"{name}.csv", told)
    return folder


def results(folder: Path, backbone: Path, window: str, reporter: Reporter | None = None) -> dict[str, float]:
    data: dict[str, Any] = {name: str(folder / f"{name}.csv") for name in ("train", "validation", "test")}
    data |= {"text": "text", "label": "stars", "attributes": [{"name": "user"}], "window": window}
    output = folder / window.replace(":", "-").replace("+", "-")
    recipe = {
        "data": data,
        "method": {"name": "tokens"},
        "backbone": {"name": str(backbone)},
        "training": {"steps": 2, "batch_size": 16},
    }
    train(Recipe.from_dict(recipe), output, reporter=reporter)

    scored = RunFolder(output).read_results().models
    return {one.name: one.parts["test"]["accuracy"].value for one in scored}


def test_a_cut_text_is_cut_for_the_linear_baseline_too(folder: Path, trained_runs: TrainedRuns) -> None:
    reported = Order()
    found = results(folder, trained_runs.backbone(), "head:10", reported)
    said = [line for line in reported.lines if line == "checked" or ", validation: accuracy " in line]
    linear = ["linear", "linear, whole texts", "linear, text only"]
    assert [line.split(", validation")[0] for line in said][:4] == [*linear, "attributes-only"]
    assert said[4] == "checked", "the cheap models are known before the model learns"
    assert found["linear, whole texts"] == 1
    assert found["linear"] < 0.8  # the words that tell are beyond the window
    assert [name for name in found if name.startswith("linear")] == linear


def test_the_end_that_is_read_is_read_by_both(folder: Path, trained_runs: TrainedRuns) -> None:
    found = results(folder, trained_runs.backbone(), "head+tail:4+4")
    assert found["linear"] == found["linear, whole texts"] == 1


@pytest.mark.parametrize("method", ["linear", "attributes-only", "boosting"])
def test_a_predictor_needs_only_the_run_of_a_baseline(folder: Path, tmp_path: Path, method: str) -> None:
    run = tmp_path / "run"
    train(str(folder / "train.csv"), run, method=method, baselines=False, **COLUMNS)
    rows = {"text": ["so good", "so bad"], "user": ["u1", None]}
    expected = load_run(run)[1].logits(rows)[0]
    for place in (run, run / "model"):
        predictor = Predictor.from_pretrained(place)
        np.testing.assert_array_equal(predictor.logits(rows)[0], expected)
        assert predictor.predict("so good", user="u1")["prediction"] in ("0", "1")


def test_a_baseline_that_cannot_be_fitted_does_not_end_the_training(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    """Texts of signs alone, which are read as tokens and not as words."""
    table = pd.DataFrame(small_runs.reviews(80))
    table["text"] = [("\U0001f600 " if place % 2 else "\U0001f622 ") * (place + 1) for place in range(len(table))]
    settings = {"training.steps": 2, "training.precision": "float32", "data.max_length": 8}
    train(table, tmp_path / "run", **COLUMNS, backbone=trained_runs.backbone(), method="tokens", settings=settings)
    names = [one.name for one in RunFolder(tmp_path / "run").read_results().models]
    assert names == ["tokens", "tokens, attributes hidden", "attributes-only", "majority"]


def test_a_run_works_from_any_folder(
    folder: Path, trained_runs: TrainedRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backbone that was named from the working folder is found from another, until it is moved."""
    options = {**COLUMNS, "baselines": False, "epochs": 0.1, "max_length": 16}
    shutil.copytree(trained_runs.backbone(), tmp_path / "weights")
    monkeypatch.chdir(tmp_path)
    train(str(folder / "train.csv"), "run", backbone="weights", **options)
    train(str(folder / "train.csv"), "run", backbone="./weights", resume=True, **options)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = Predictor.from_pretrained("../run/model").predict(["so good"])
    (tmp_path / "weights").rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match=r"there is no folder .*weights with the weights.*backbone='FOLDER'"):
        Predictor.from_pretrained("../run/model")
    moved = Predictor.from_pretrained("../run/model", backbone="../moved").predict(["so good"])
    assert moved["probability_1"].tolist() == found["probability_1"].tolist()


def test_a_network_takes_the_place_of_a_baseline_in_its_folder(
    folder: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    train(str(folder / "train.csv"), tmp_path / "linear", method="linear", baselines=False, **COLUMNS)
    kept = tmp_path / "kept"
    load_run(tmp_path / "linear")[1].model.save_pretrained(kept)
    network = load_run(trained_runs("injector"))[1].model
    network.save_pretrained(kept)
    assert type(Predictor.from_pretrained(kept).model) is type(network)
