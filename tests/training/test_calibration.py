"""Probabilities are calibrated: logits are divided by a temperature that fits the validation rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs

from attribune import Predictor, train
from attribune.findings import Finding
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.folder import RunFolder
from attribune.tasks import Aspects, Classification, Regression, Task
from attribune.tasks.calibration import fit_temperature

CLASSES = ("a", "b", "c")


def drawn(task: Task, rows: int, *, boldness: float) -> tuple[Any, Any]:
    """Labels that follow the probabilities of logits, and these logits times a number."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(rows, task.outputs))
    if isinstance(task, Classification) and task.multi_label:
        labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
        return boldness * logits, np.concatenate([labels, np.zeros((rows, 1), np.float32)], axis=1)
    heads = [logits] if isinstance(task, Classification) else np.split(logits, 2, axis=1)
    ids = np.stack([(head + rng.gumbel(size=head.shape)).argmax(axis=1) for head in heads], axis=1)
    return boldness * logits, ids[:, 0] if isinstance(task, Classification) else ids


TASKS = {
    "one class": Classification(classes=CLASSES),
    "several labels": Classification(classes=CLASSES, multi_label=True, separator="|"),
    "aspects": Aspects(names=("x", "y"), classes=(CLASSES, CLASSES)),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("boldness", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_how_bold_logits_are(name: str, boldness: float) -> None:
    task = TASKS[name]
    logits, labels = drawn(task, 2_000, boldness=boldness)
    temperature = fit_temperature(task, logits, labels)
    assert temperature == pytest.approx(boldness, rel=0.08)

    def loss(divisor: float) -> float:
        score = task.proper_score(logits / divisor, labels)
        assert score is not None
        return score.value()

    grid = np.geomspace(0.05, 20, 400)
    assert loss(temperature) == pytest.approx(min(map(loss, grid)), abs=1e-4)


def test_few_rows_change_little() -> None:
    task = TASKS["one class"]
    labels = np.array([0, 2, 1])
    sure = 10 * np.eye(3)[labels]
    assert fit_temperature(task, sure, labels) < 1, "all right"
    assert 0.6 < fit_temperature(task, sure / 10, labels) < 1, "three rows do not make it sure"
    assert fit_temperature(task, np.zeros((3, 3)), labels) == pytest.approx(1, abs=1e-3)


def test_what_has_no_probabilities_has_no_temperature() -> None:
    logits = np.ones((4, 1))
    assert fit_temperature(Regression(mean=0.0, std=1.0), logits, np.zeros(4)) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, backbone: Path) -> RunFolder:
    folder = tmp_path_factory.mktemp("probabilities-calibrated")
    table = pd.DataFrame(small_runs.reviews(200))
    options: dict[str, Any] = {"text": "text", "label": "stars", "attributes": ["user"], "max_length": 32}
    options |= {"backbone": backbone, "method": "pln", "epochs": 2, "learning_rate": 0.01}
    float32 = {"training.precision": "float32"}
    train(table, folder / "run", settings=float32, **options)
    train(table, folder / "raw", settings={**float32, "training.calibration": False}, baselines=False, **options)
    return RunFolder(folder / "run")


def test_predictions_are_calibrated_and_a_forward_pass_is_not(run: RunFolder) -> None:
    predictor, raw = (Predictor.from_pretrained(run.path.with_name(name)) for name in ("run", "raw"))
    temperature = predictor.model.temperature
    assert temperature is not None
    assert abs(np.log(temperature)) > 0.01
    assert raw.model.temperature is None
    table = pd.DataFrame(small_runs.reviews(12, seed=1))
    found, without = predictor.logits(table)[0], raw.logits(table)[0]
    np.testing.assert_allclose(found * temperature, without, rtol=1e-5, atol=1e-6)
    rows = predictor.encode_rows(table)
    logits = predictor.model(**predictor.model.batch(rows)).logits.detach().numpy()
    np.testing.assert_allclose(logits, without, rtol=1e-5, atol=1e-6)
    group = PredictorGroup.from_pretrained({"one": run.path, "two": run.path.with_name("raw")})
    together = group.score({"one": rows, "two": rows})
    np.testing.assert_allclose(together["one"], found, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(together["two"], without, rtol=1e-5, atol=1e-6)


def test_the_verdict_says_what_the_temperature_changed(run: RunFolder) -> None:
    results = run.read_results()
    temperature = Predictor.from_pretrained(run.path).model.temperature
    assert results.training.temperature == temperature
    (found,) = (one for one in results.findings if one.code == "probabilities-calibrated")
    proper = {name: RunFolder(run.path.with_name(name)).read_results() for name in ("run", "raw")}
    after, before = (proper[name].models[0].parts["test"]["log_loss"].value for name in ("run", "raw"))
    assert found.values["rows"] == "test"
    assert found.values["temperature"] == temperature
    assert found.values["after"] == pytest.approx(after, abs=1e-6)
    assert found.values["before"] == pytest.approx(before, abs=1e-6)
    assert found.text.startswith("The probabilities are calibrated on rows that the network had not read (temperature ")
    validated = Finding(found.code, {**found.values, "rows": "validation"})
    assert validated.text.endswith("These are the rows on which that was fitted, so the gain is too high.")
    other = RunFolder(run.path.with_name("raw"))
    assert "probabilities-calibrated" not in {one.code for one in other.read_results().findings}
    assert json.loads((other.path / "model" / "config.json").read_text()).get("calibration_temperature") is None


def test_a_run_of_before_predicts_as_before(run: RunFolder) -> None:
    settings = run.read_recipe().model_dump(mode="json")
    del settings["training"]["calibration"], settings["data"]["share_window"]
    read = type(run.read_recipe()).from_dict(settings, saved=True)
    assert (read.training.calibration, read.data.share_window) == (False, False)
