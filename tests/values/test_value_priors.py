"""The prior of new values: found again where it is known, stored with the model, and used by enrolment."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from datasets import Dataset
from drawn_values import TASKS, drawn_rows, model_of
from trained_runs import TrainedRuns

from attribune import AttributeModel
from attribune.apps.cli import main
from attribune.models.config import TYPICAL_PRIOR_WEIGHT
from attribune.models.predictor import Predictor
from attribune.schema import Categorical, Schema
from attribune.values.enrol import enrol
from attribune.values.posterior import learn_value_priors, rows_to_learn_from


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        *("regression", "classification"),
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("several", "rating", "ordinal")),
    ],
)
def test_a_known_prior_is_found_again(kind: str, tmp_path: Path) -> None:
    """Labels are drawn from the model with vectors of a known spread: the weight is one over its square."""
    task = TASKS[kind]
    model = model_of(task, tmp_path)
    found = []
    for scale in (0.5, 2.0):
        rows = drawn_rows(model, task, scale=scale)
        state = {name: p.detach().clone() for name, p in model.named_parameters()}
        weights = learn_value_priors(model, rows.take, rows.attribute_ids, run=nullcontext)
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, state[name])
        found.append(weights["user"] ** -0.5)
    assert found[0] < found[1]
    assert 1.0 < found[1] < 4.0  # logits are not quite linear in vectors so large


@pytest.mark.slow
def test_few_values_leave_the_weight_near_a_typical_one(tmp_path: Path) -> None:
    """Labels do not depend on the values: many of them say so, and four say little."""
    task = TASKS["rating"]
    model = model_of(task, tmp_path)
    rows = drawn_rows(model, task, scale=0.0)
    few = rows.take(np.flatnonzero(rows.attribute_ids[:, 0] <= 4))
    found = [learn_value_priors(model, one.take, one.attribute_ids, run=nullcontext)["user"] for one in (rows, few)]
    assert TYPICAL_PRIOR_WEIGHT < found[1] < found[0]


def test_rows_are_of_values_that_have_two() -> None:
    schema = Schema.fit({"user": [f"v{value}" for value in range(30)] * 2}, [Categorical("user")])
    ids = np.concatenate([np.repeat(np.arange(1, 13), 20), np.arange(13, 31), np.zeros(5, int)])[:, None]
    chosen = rows_to_learn_from(ids, schema["user"], outputs=2)
    owners, counts = np.unique(ids[chosen], return_counts=True)
    assert owners.tolist() == list(range(1, 13))
    assert counts.tolist() == [8] * 12
    assert rows_to_learn_from(ids[: 3 * 20], schema["user"], outputs=2) is None  # of three values nothing is learned
    fewer = rows_to_learn_from(ids, schema["user"], outputs=20)
    assert len(fewer) == 80  # a row costs a pass for each output


def trained(library: TrainedRuns, method: str = "injector") -> Path:
    """A run with as many values as priors are learned from."""
    rows = [row | {"user": f"u{number % 20}"} for number, row in enumerate(small_runs.reviews(200, seed=3))]
    backbone = "tang-cnn" if method == "upnn" else str(library.backbone())
    words = small_runs.train_command(library.table(rows[:160]), "", backbone=backbone, method=method)
    return library.trained([*words, "--validation", str(library.table(rows[160:])), "--no-baselines"])


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        *("injector", "upnn"),
        *(pytest.param(method, marks=pytest.mark.exhaustive) for method in ("plora", "e2ln", "injector+plora")),
    ],
)
def test_it_is_stored_with_the_model(trained_runs: TrainedRuns, method: str) -> None:
    run = trained(trained_runs, method)
    config = json.loads((run / "model" / "config.json").read_text(encoding="utf-8"))
    assert set(config["value_priors"]) == {"user"}
    assert 0 < config["value_priors"]["user"] < 1e4


@pytest.mark.exhaustive
@pytest.mark.slow
def test_enrolment_weighs_its_prior_by_it(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    """A tenth of ten times the weight that was learned is that weight, and a model without one has a typical one."""
    run = trained_runs.copy(trained(trained_runs), tmp_path / "run")
    rows = {"text": ["great film"] * 4, "stars": ["good", "good", "bad", "good"], "user": ["new"] * 4}

    def vector(weight: float | None, prior: float) -> Any:
        model = AttributeModel.from_pretrained(run / "model")
        model.config.value_priors = None if weight is None else {"user": weight}
        model.save_pretrained(run / "model")
        enrol(run, Dataset.from_dict(rows), prior=prior)
        table = Predictor.from_pretrained(run / "model").model.values.vectors("user", count=21)[-1]
        assert main(["enrol", str(run), "--undo"]) == 0
        return table

    first = vector(0.02, 5.0)
    assert vector(0.2, 0.5) == pytest.approx(first, abs=1e-6)
    assert vector(None, 0.1 / TYPICAL_PRIOR_WEIGHT) == pytest.approx(first, abs=1e-6)
    assert np.abs(vector(0.002, 1.0)).sum() > np.abs(first).sum()
